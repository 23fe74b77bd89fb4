//! The account of one sender's frames that came: which did, which did again, and which came late.

/// How far behind the newest frame of its sender one may come and still be told from a repeated
/// one. More than any ring and any switch here holds.
const WINDOW: u64 = 1 << 15;

/// What came of one sender's frames.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// The first that counts.
    first: u64,
    /// The number after the highest that came.
    next: u64,
    /// A bit for each of the last numbers, by number modulo the window.
    came: Box<[u64]>,
    /// Of each flow, the number after the highest that came.
    flows: Vec<u64>,
    /// Different frames that came.
    pub received: u64,
    /// Frames that had come before.
    pub duplicates: u64,
    /// Frames that came after a later one of their flow.
    pub out_of_order: u64,
}

impl Arrivals {
    /// Of a sender with so many flows, nothing yet; what it sent before `first` does not count.
    pub fn new(flows: u32, first: u64) -> Self {
        Self {
            first,
            next: first,
            came: vec![0; (WINDOW / 64) as usize].into(),
            flows: vec![0; flows as usize],
            received: 0,
            duplicates: 0,
            out_of_order: 0,
        }
    }

    /// Books a frame.
    ///
    /// # Panics
    ///
    /// If it is of no flow of the sender's.
    #[inline]
    pub fn book(&mut self, flow: u32, sequence: u64) {
        if sequence < self.first {
            return;
        }
        if sequence >= self.next {
            self.forget(self.next.max((sequence + 1).saturating_sub(WINDOW))..sequence);
            self.next = sequence + 1;
            *self.word(sequence) &= !bit(sequence);
        }
        let is_late = sequence + WINDOW < self.next;
        if is_late || *self.word(sequence) & bit(sequence) != 0 {
            self.duplicates += 1;
            return;
        }
        *self.word(sequence) |= bit(sequence);
        self.received += 1;
        let next = &mut self.flows[flow as usize];
        if sequence < *next {
            self.out_of_order += 1;
        } else {
            *next = sequence + 1;
        }
    }

    /// Frees the places of numbers that were passed over.
    fn forget(&mut self, passed: std::ops::Range<u64>) {
        passed.for_each(|number| *self.word(number) &= !bit(number));
    }

    #[inline]
    fn word(&mut self, sequence: u64) -> &mut u64 {
        &mut self.came[(sequence % WINDOW / 64) as usize]
    }
}

#[inline]
fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn late_is_told_from_again_and_flows_have_their_own_order() {
        let mut arrivals = Arrivals::new(2, 10);
        // Of flow 0: 10, 12, 13, again 12, 11 late. Of flow 1: 14, 15, before 13 came. And one of
        // before.
        for (flow, sequence) in
            [(0, 10), (0, 12), (1, 14), (1, 15), (0, 13), (0, 12), (0, 11), (1, 9)]
        {
            arrivals.book(flow, sequence);
        }
        assert_eq!((arrivals.received, arrivals.duplicates, arrivals.out_of_order), (6, 1, 1));
        // What lies too far back cannot be told from a repeated one.
        arrivals.book(1, 10 + 2 * WINDOW);
        arrivals.book(1, 16);
        assert_eq!((arrivals.received, arrivals.duplicates), (7, 2));
    }

    proptest! {
        #[test]
        fn every_number_counts_once(steps in prop::collection::vec((0u64..200, any::<bool>()), 1..400)) {
            let mut arrivals = Arrivals::new(1, 0);
            let mut came = std::collections::BTreeSet::new();
            let mut highest = 0_u64;
            let mut again = 0;
            for (step, forward) in steps {
                let sequence = if forward { highest + step * 40 } else { highest.saturating_sub(step) };
                highest = highest.max(sequence);
                again += u64::from(!came.insert(sequence));
                arrivals.book(0, sequence);
            }
            prop_assert_eq!((arrivals.received, arrivals.duplicates), (came.len() as u64, again));
        }
    }
}
