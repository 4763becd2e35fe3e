//! A worker: one thread, the guests that were given to it, and when it may sleep.
//!
//! A guest that had something to do lately is **hot** and polled again and again; one that had not for a
//! while is armed and left alone until its descriptor says so. With none hot, the worker sleeps.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::Link;
use fabric::{Lane, linger};
use rustix::event::epoll;

use crate::rows::Rows;
use crate::workers::connection::Guest;
use crate::workers::context::Tools;
use crate::workers::pool::Shared;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    /// Which of the crew it is.
    number: usize,
    tools: Tools,
    guests: Rows<Seat>,
    hot: Vec<u32>,
    epoll: rustix::fd::OwnedFd,
    /// Whether a guest had something to do since it last slept.
    works: bool,
    /// When it last looked after what stands unused.
    tidied: Instant,
    /// When it last looked whether guests may be seen off, once the store is about to end.
    seen_off: Instant,
}

struct Seat {
    guest: Guest,
    /// Whether it had something to do since that was last asked.
    works: bool,
    is_hot: bool,
    /// Whether it had something to do since it was last looked at to be seen off, and since when not.
    stirred: bool,
    quiet: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        tools: Tools,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, shared.bell(number), bell, epoll::EventFlags::IN)?;
        Ok(Worker {
            shared,
            number,
            tools,
            guests: Rows::default(),
            hot: Vec::new(),
            epoll,
            works: false,
            tidied: Instant::now(),
            seen_off: Instant::now(),
        })
    }

    /// Works until told to stop and all guests are gone.
    pub(crate) fn run(mut self) {
        let mut done = Vec::new();
        let mut rounds = 0_u32;
        // How many looks at guests there were since those that are not hot had their turn, and since the last pause:
        // with many hot guests a round takes long.
        let (mut glanced, mut paused) = (0, 0);
        // Links that only say that they are there are no reason to stay awake.
        let mut busy = None::<Instant>;
        while !self.is_over() {
            rounds = rounds.wrapping_add(1);
            let looks = self.hot.len().max(1);
            (glanced, paused) = (glanced + looks, paused + looks);
            if glanced >= GLANCE {
                glanced = 0;
                // Those that are not hot have their turn too.
                self.listen(Some(Duration::ZERO));
                self.close();
            }
            if self.hear_news() | self.step(&mut done) {
                busy = None;
                if paused >= PAUSE {
                    paused = 0;
                    self.pause();
                }
                continue;
            }
            // The clock costs as much as a look, so it is asked now and then.
            if self.works && looks < LOOKS as usize && !rounds.is_multiple_of(LOOKS) {
                std::hint::spin_loop();
                continue;
            }
            let now = Instant::now();
            let waited = now.duration_since(*busy.get_or_insert(now));
            // Who waits for the disk leaves the CPU to those who write to it.
            let looks_out = self.works && self.tools.away == 0;
            if looks_out && self.shared.may_spin(self.number) && linger(waited) {
                continue;
            }
            (self.works, busy) = (false, None);
            self.pause();
            if self.rest() {
                self.shared.spins(self.number, false);
                // Who has something of ours may give it back without saying so.
                let tidy = (self.tools.debtors > 0).then_some(TIDY);
                self.listen(if self.tools.closing { Some(CLOSING) } else { tidy });
                self.close();
            }
        }
        self.tools.tell();
    }

    /// What came back from other threads; says whether something did.
    #[inline]
    fn hear_news(&mut self) -> bool {
        let news = self.shared.take_news(self.number);
        let any = !news.is_empty();
        for (row, news) in news {
            if let Some(seat) = self.guests.get_mut(row) {
                seat.guest.hear_of(news, &mut self.tools);
                seat.works = true;
                self.heat(row);
            }
        }
        any
    }

    /// What is not urgent.
    fn pause(&mut self) {
        self.tools.tell();
        let now = Instant::now();
        if now.duration_since(self.tidied) >= TIDY {
            self.tidied = now;
            for (_, seat) in self.guests.iter_mut() {
                seat.guest.tidy(now, &mut self.tools);
            }
        }
        // Guests that did nothing since the last time are left alone while others work.
        let (guests, tools) = (&mut self.guests, &mut self.tools);
        self.hot.retain(|row| {
            let Some(seat) = guests.get_mut(*row) else { return false };
            let works = std::mem::take(&mut seat.works);
            seat.is_hot = works || !seat.guest.rest(tools);
            seat.is_hot
        });
    }

    /// Once the store is about to end: says goodbye to guests that have been quiet for a moment. Whoever asks before
    /// that is told that nothing was done, and need not wonder.
    fn close(&mut self) {
        let now = Instant::now();
        if !self.tools.closing || now.duration_since(self.seen_off) < CLOSING {
            return;
        }
        self.seen_off = now;
        let mut gone = Vec::new();
        for (row, seat) in self.guests.iter_mut() {
            let patience = seat.guest.patience(&mut self.tools);
            if std::mem::take(&mut seat.stirred) || patience.is_none() {
                seat.quiet = None;
                continue;
            }
            let silence = now.duration_since(*seat.quiet.get_or_insert(now));
            if patience.is_some_and(|patience| silence >= patience) {
                seat.guest.dismiss("the store is shutting down");
                gone.push(row);
            }
        }
        gone.into_iter().for_each(|row| self.heat(row));
    }

    fn is_over(&self) -> bool {
        self.shared.is_stopping() && self.guests.len() == 0
    }

    /// Every hot guest once.
    fn step(&mut self, done: &mut Vec<fabric::Completion>) -> bool {
        let mut busy = false;
        let mut at = 0;
        while at < self.hot.len() {
            let row = self.hot[at];
            let Some(seat) = self.guests.get_mut(row) else {
                self.hot.swap_remove(at);
                continue;
            };
            if seat.guest.step(&mut self.tools, done) {
                (busy, seat.works, seat.stirred) = (true, true, true);
            }
            if seat.guest.is_gone() {
                self.hot.swap_remove(at);
                self.see_off(row);
                continue;
            }
            at += 1;
        }
        self.works |= busy;
        busy
    }

    /// Arms all hot guests; `true` if none is hot any more.
    fn rest(&mut self) -> bool {
        let (guests, tools) = (&mut self.guests, &mut self.tools);
        self.hot.retain(|row| {
            let Some(seat) = guests.get_mut(*row) else { return false };
            seat.is_hot = !seat.guest.rest(tools);
            seat.is_hot
        });
        self.hot.is_empty()
    }

    /// Takes in who has something to say, and who is new.
    fn listen(&mut self, limit: Option<Duration>) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let limit = limit.and_then(|limit| limit.try_into().ok());
        let Ok(count) = epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) else { return };
        for event in &events[..count] {
            match event.data.u64() {
                BELL => self.answer_bell(),
                row => self.heat(row as u32),
            }
        }
    }

    fn heat(&mut self, row: u32) {
        if let Some(seat) = self.guests.get_mut(row).filter(|seat| !seat.is_hot) {
            seat.is_hot = true;
            self.hot.push(row);
        }
    }

    fn answer_bell(&mut self) {
        for link in self.shared.take(self.number) {
            if let Err(error) = self.seat(link) {
                tracing::warn!(%error, "cannot serve a link");
                self.shared.left(self.number);
            }
        }
        self.tools.closing = self.shared.is_closing();
        if self.shared.takes_review(self.number) {
            let guests = self.guests.iter_mut();
            let sent = guests.filter_map(|(row, seat)| (!seat.guest.is_welcome()).then_some(row));
            let sent: Vec<u32> = sent.collect();
            sent.into_iter().for_each(|row| self.heat(row));
        }
        if self.shared.is_stopping() {
            for (_, seat) in self.guests.iter_mut() {
                seat.guest.dismiss("the store is shutting down");
            }
            let rows: Vec<u32> = self.guests.iter_mut().map(|(row, _)| row).collect();
            rows.into_iter().for_each(|row| self.heat(row));
        }
    }

    fn seat(&mut self, link: Link) -> Result<(), fabric::Error> {
        let guest = Guest::new(link, &mut self.tools)?;
        let seat = Seat { guest, works: true, is_hot: true, stirred: true, quiet: None };
        let row = self.guests.insert(seat);
        let Some(seat) = self.guests.get_mut(row) else { return Ok(()) };
        seat.guest.row = row;
        let data = epoll::EventData::new_u64(row.into());
        // Without it the guest would be heard only while it is hot.
        if epoll::add(&self.epoll, seat.guest.link.fd().as_fd(), data, epoll::EventFlags::IN)
            .is_err()
        {
            seat.guest.dismiss("its descriptor cannot be watched");
        }
        self.hot.push(row);
        Ok(())
    }

    /// A guest is gone: its link is taken apart elsewhere, since that may take a moment.
    fn see_off(&mut self, row: u32) {
        if let Some(seat) = self.guests.remove(row) {
            let _ = epoll::delete(&self.epoll, seat.guest.link.fd());
            self.shared.bury(seat.guest.into_link(&mut self.tools));
            self.shared.left(self.number);
        }
    }
}

/// The descriptor by which the crew calls.
const BELL: u64 = u64::MAX;
/// For how many looks at hot guests the others wait at most.
const GLANCE: usize = 256;
/// After how many looks those are sorted out that are hot no more.
const PAUSE: usize = 16 * GLANCE;
/// How many rounds pass between looks at the clock.
const LOOKS: u32 = 8;
const TIDY: Duration = Duration::from_secs(1);
/// How often guests are looked at once the store is about to end.
const CLOSING: Duration = Duration::from_millis(20);
