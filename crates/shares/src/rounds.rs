//! Deficit round robin whose rounds are a calendar.
//!
//! In each round a holder may spend a quantum in proportion to its weight (Shreedhar and Varghese,
//! SIGCOMM 1995). Here it may overdraw it once, and then sits out as many rounds as it takes to pay
//! that back. The round in which it comes next is known at once, and rounds in which nobody comes
//! are skipped, so a turn costs the same however small quanta are and however large frames. Quanta
//! can therefore be much smaller than frames, and holders alternate frame by frame.
//!
//! A holder that leaves keeps what it has overdrawn until that round comes, and nothing that it has
//! saved: leaving and coming back gains nothing.

use alloc::vec::Vec;
use core::num::NonZeroU16;

use crate::calendar::{Calendar, MOST_SLOTS};

/// What a weight of one may spend in a round, in bytes: a weight of about a hundred sends one full
/// frame in each. The largest segment, 64 KiB at a weight of one, is paid back in as many rounds as
/// a whole calendar has.
pub(crate) const QUANTUM: u32 = 16;

/// The most rounds that anybody sits out. What was overdrawn beyond is forgiven.
const LONGEST: i64 = 64 * MOST_SLOTS as i64;

/// Who takes part, and who has been served how much.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    calendar: Calendar,
    accounts: Vec<Account>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    /// The round that it may spend in.
    round: u64,
    /// What it may still spend in that round: more than nothing, and at most its quantum.
    balance: i64,
    quantum: i64,
}

const NOTHING: Account = Account { round: 0, balance: 1, quantum: 1 };

impl Rounds {
    /// Of so many rounds, those to come are told apart.
    pub(crate) fn new(slots: u64) -> Self {
        Self { calendar: Calendar::new(slots), accounts: Vec::new() }
    }

    /// Has room for holders below this number.
    pub(crate) fn reach(&mut self, holders: usize) {
        self.calendar.reach(holders);
        if holders > self.accounts.len() {
            self.accounts.resize(holders, NOTHING);
        }
    }

    /// A holder that is new under this number.
    pub(crate) fn open(&mut self, holder: u32, weight: NonZeroU16) {
        let quantum = i64::from(u32::from(weight.get()) * QUANTUM);
        let round = self.calendar.base();
        self.accounts[holder as usize] = Account { round, balance: quantum, quantum };
    }

    /// It has this weight from now on.
    pub(crate) fn weigh(&mut self, holder: u32, weight: NonZeroU16) {
        let account = &mut self.accounts[holder as usize];
        account.quantum = i64::from(u32::from(weight.get()) * QUANTUM);
        account.balance = account.balance.min(account.quantum);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.calendar.is_empty()
    }

    /// It takes turns from now on, if it does not yet: in this round, unless it has overdrawn it.
    #[inline]
    pub(crate) fn enter(&mut self, holder: u32) {
        if self.calendar.contains(holder) {
            return;
        }
        let account = &mut self.accounts[holder as usize];
        let round = self.calendar.base();
        if account.round < round {
            (account.round, account.balance) = (round, account.quantum);
        }
        if self.calendar.is_empty() {
            self.calendar.advance(account.round);
        }
        self.calendar.insert(holder, account.round);
    }

    /// It takes no more turns.
    #[inline]
    pub(crate) fn leave(&mut self, holder: u32) {
        self.calendar.remove(holder);
    }

    /// Whose turn it is.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<u32> {
        loop {
            let (round, holder) = self.calendar.first()?;
            self.calendar.advance(round);
            let due = self.accounts[holder as usize].round;
            if due == round {
                return Some(holder);
            }
            // It lay beyond the last slot.
            self.calendar.remove(holder);
            if self.calendar.is_empty() {
                self.calendar.advance(due);
            }
            self.calendar.insert(holder, due);
        }
    }

    /// It has spent so much.
    #[inline]
    pub(crate) fn spend(&mut self, holder: u32, bytes: u64) {
        let account = &mut self.accounts[holder as usize];
        account.balance = account.balance.saturating_sub_unsigned(bytes);
        if account.balance > 0 {
            return;
        }
        let overdrawn = account.balance.saturating_neg();
        let rounds = match overdrawn < account.quantum {
            true => 1,
            false => 1 + (overdrawn / account.quantum).min(LONGEST),
        };
        let paid = account.quantum.saturating_mul(rounds);
        account.balance = account.balance.saturating_add(paid).max(1);
        account.round += rounds.unsigned_abs();
        if self.calendar.contains(holder) {
            self.calendar.insert(holder, account.round);
        }
    }
}
