//! A camera played from a script, for tests and demos: what real ones do wrong can be had on any machine.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::pixels::{RawDecoder, RawFrame};
use super::{Kind, Next, Source, SourceError};

/// How long to wait for what will never come.
const NEVER: Duration = Duration::from_millis(50);

/// One thing that a camera does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Delivers a frame, `delay` after what came before.
    Frame {
        /// The data and what it is declared to be.
        raw: RawFrame,
        /// Time since the act before.
        delay: Duration,
    },
    /// Delivers nothing more, without a word.
    Stall,
    /// Is unplugged.
    Disconnect,
}

/// A live source that follows a script and then ends.
#[derive(Debug)]
pub struct Fake {
    acts: VecDeque<Act>,
    decoder: RawDecoder,
    last_act: Option<Instant>,
}

impl Fake {
    /// A camera called `name`.
    pub fn new(name: &str, acts: impl IntoIterator<Item = Act>) -> Self {
        let acts = acts.into_iter().collect();
        Self { acts, decoder: RawDecoder::new(name.to_owned()), last_act: None }
    }
}

impl Source for Fake {
    fn name(&self) -> String {
        self.decoder.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        let now = Instant::now();
        let due = *self.last_act.get_or_insert(now)
            + match self.acts.front() {
                None => return Ok(Next::End),
                Some(Act::Stall) => return Ok(Next::Wait(NEVER)),
                Some(Act::Disconnect) => Duration::ZERO,
                Some(Act::Frame { delay, .. }) => *delay,
            };
        if due > now {
            return Ok(Next::Wait(due - now));
        }
        self.last_act = Some(due);
        match self.acts.pop_front() {
            Some(Act::Frame { raw, .. }) => Ok(Next::Frame(self.decoder.frame(&raw)?)),
            _ => {
                self.acts.clear();
                Err(SourceError::Lost { name: self.name(), reason: "it was unplugged".into() })
            }
        }
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        Err(SourceError::live(&self.decoder.name, index))
    }

    fn faults(&self) -> u64 {
        self.decoder.faults
    }
}
