//! Random logical networks that say all that can be said, and random frames in them.
//!
//! For tests of whatever reads networks: each seed makes the same world every time. Worlds are
//! small, so that rules, addresses and frames meet often. A world may have a second tenant with the
//! first one's very names and addresses, whose packets must never meet theirs.

mod corners;
mod declare;
mod frames;

pub use corners::CORNERS;
pub use declare::{Options, World};
pub use frames::Sent;

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn every_seed_makes_a_world_the_same_each_time_and_frames_in_it() {
        let mut rng = Rng::new(1);
        for seed in 0..2000 {
            let world = World::new(seed);
            assert_eq!(world.text, World::new(seed).text);
            let frames: Vec<_> = (0..20).map(|_| world.frame(&mut rng).frame).collect();
            assert!(frames.iter().filter(|it| it.len() >= 14).count() >= 15);
        }
    }

    #[test]
    fn an_edited_world_is_another_and_loads() {
        let mut rng = Rng::new(7);
        let mut world = World::new(7);
        for _ in 0..100 {
            world = world.edited(&mut rng);
            if world.text.lines().count() < 20 {
                world = World::new(rng.next_u64());
            }
        }
    }
}
