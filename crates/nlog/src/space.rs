//! The tuples of all tables, and a journal of what a batch has done to them.

use alloc::vec::Vec;

use crate::store::Store;
use crate::tree::Tree;

/// All tables, by their indexes.
pub(crate) struct Space {
    stores: Vec<Store>,
    /// Of tables that are a minimum, a maximum or a set: what their groups consist of, each with
    /// how many solutions there are.
    members: Vec<Option<Tree>>,
    entries: Vec<Entry>,
    words: Vec<u32>,
}

/// What was done to a row, and where in the words the row was written down: as it was before.
struct Entry {
    table: u32,
    done: Done,
    at: usize,
}

enum Done {
    Inserted,
    Removed,
    Set,
    /// A member's number was changed.
    Counted,
}

impl Space {
    pub fn new(stores: Vec<Store>, members: Vec<Option<Tree>>) -> Self {
        Self { stores, members, entries: Vec::new(), words: Vec::new() }
    }

    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    pub fn is_empty(&self) -> bool {
        self.stores.iter().all(|store| store.len() == 0)
    }

    pub fn bytes(&self) -> usize {
        let members = self.members.iter().flatten().map(Tree::bytes).sum::<usize>();
        members + self.stores.iter().map(Store::bytes).sum::<usize>()
    }

    pub fn insert(&mut self, table: usize, key: &[u32], payload: &[u32]) {
        self.note(table, Done::Inserted, key, &[]);
        self.stores[table].insert(key, payload);
    }

    pub fn remove(&mut self, table: usize, key: &[u32]) {
        self.note_payload(table, Done::Removed, key);
        self.stores[table].remove(key);
    }

    pub fn set(&mut self, table: usize, key: &[u32], payload: &[u32]) {
        self.note_payload(table, Done::Set, key);
        self.stores[table].set(key, payload);
    }

    /// Fills a table that was empty. No journal is kept: `clear` undoes it.
    pub fn load(&mut self, table: usize, rows: &[u32], stride: usize, spare: &mut Vec<u32>) {
        self.stores[table].load(rows, stride, spare);
    }

    /// What the groups of a table consist of.
    pub fn members(&self, table: usize) -> Option<&Tree> {
        self.members[table].as_ref()
    }

    /// Changes the number of a member, which comes with the first and goes with the last. Returns
    /// the numbers before and after.
    pub fn count(&mut self, table: usize, key: &[u32], change: i32) -> (u32, u32) {
        let members = self.members[table].as_mut().expect("the table has members");
        let before = members.get(key).map_or(0, |payload| payload[0]);
        let after = before.checked_add_signed(change).expect("members come before they go");
        write(members, key, before, after);
        self.note(table, Done::Counted, key, &[before, after]);
        (before, after)
    }

    /// Forgets what has been done: it stays.
    pub fn commit(&mut self) {
        self.entries.clear();
        self.words.clear();
        // A cold start or a large batch is no reason to keep so much memory.
        self.words.shrink_to(1 << 16);
        self.entries.shrink_to(1 << 12);
    }

    /// Undoes everything since the last commit.
    pub fn undo(&mut self) {
        while let Some(Entry { table, done, at }) = self.entries.pop() {
            let table = table as usize;
            let store = &mut self.stores[table];
            let (key, payload) = self.words[at..].split_at(match done {
                Done::Counted => self.words.len() - at - 2,
                _ => store.tree(0).width(),
            });
            match done {
                Done::Inserted => store.remove(key),
                Done::Removed => store.insert(key, payload),
                Done::Set => store.set(key, payload),
                Done::Counted => {
                    let members = self.members[table].as_mut().expect("the table has members");
                    write(members, key, payload[1], payload[0]);
                }
            }
            self.words.truncate(at);
        }
    }

    fn note_payload(&mut self, table: usize, done: Done, key: &[u32]) {
        let at = self.words.len();
        self.words.extend_from_slice(key);
        let payload = self.stores[table].get(key).expect("what is changed exists");
        self.words.extend_from_slice(payload);
        self.entries.push(Entry { table: table as u32, done, at });
    }

    fn note(&mut self, table: usize, done: Done, key: &[u32], rest: &[u32]) {
        let at = self.words.len();
        self.words.extend_from_slice(key);
        self.words.extend_from_slice(rest);
        self.entries.push(Entry { table: table as u32, done, at });
    }
}

/// Makes a member's number `after`, which was `before`.
fn write(members: &mut Tree, key: &[u32], before: u32, after: u32) {
    match (before, after) {
        (0, 0) => {}
        (0, _) => members.insert(&[key, &[after]].concat()),
        (_, 0) => members.remove(key),
        _ => members.set(key, &[after]),
    }
}
