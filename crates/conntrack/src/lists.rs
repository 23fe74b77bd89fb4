//! Many lists of the same items, each of which is in at most one: two numbers an item.

use alloc::vec::Vec;

/// Doubly linked rings. The first `heads` links are the lists' own, an item's are behind.
#[derive(Clone, Debug)]
pub struct Lists {
    links: Vec<Link>,
    heads: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    before: u32,
}

impl Lists {
    /// Empty lists, with memory for so many items.
    pub fn new(heads: u32, items: u32) -> Self {
        let mut links = Vec::with_capacity(heads as usize + items as usize);
        links.extend((0..heads).map(|own| Link { next: own, before: own }));
        Self { links, heads }
    }

    /// One more item there may be, in no list.
    pub fn add_item(&mut self) {
        let own = self.links.len() as u32;
        self.links.push(Link { next: own, before: own });
    }

    /// Puts an item that is in no list at a list's end.
    #[inline]
    pub fn push(&mut self, list: u32, item: u32) {
        let own = self.heads + item;
        let last = self.links[list as usize].before;
        self.links[own as usize] = Link { next: list, before: last };
        self.links[last as usize].next = own;
        self.links[list as usize].before = own;
    }

    /// Takes an item out of the list that it is in, if it is in one.
    #[inline]
    pub fn unlink(&mut self, item: u32) {
        let own = self.heads + item;
        let Link { next, before } = self.links[own as usize];
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
        self.links[own as usize] = Link { next: own, before: own };
    }

    /// A list's first item.
    #[inline]
    pub fn first(&self, list: u32) -> Option<u32> {
        self.links[list as usize].next.checked_sub(self.heads)
    }

    /// The item behind another one in its list.
    #[inline]
    pub fn next(&self, item: u32) -> Option<u32> {
        self.links[(self.heads + item) as usize].next.checked_sub(self.heads)
    }
}
