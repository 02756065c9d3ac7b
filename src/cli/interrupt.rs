//! Ctrl-C and the system's wish to end, taken as a request: what is in hand is finished and what is there is written, and only then does
//! the program end, by that signal as it would have at once. A second one is no request.

use super::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether somebody asked for the end.
#[derive(Debug)]
pub(super) struct Interrupt {
    /// The number of the signal; 0 before there is one.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// Errors: what the system reports.
    pub(super) fn listen() -> Result<Self, Failure> {
        let (signal, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let unheard =
            |e: std::io::Error| Failure(format!("listening for Ctrl-C: {}", crate::words::plain(e)));
        for number in [SIGINT, SIGTERM] {
            // In this order: the first signal only sets the flag by which the second ends the program.
            flag::register_conditional_default(number, Arc::clone(&again)).map_err(unheard)?;
            flag::register(number, Arc::clone(&again)).map_err(unheard)?;
            flag::register_usize(number, Arc::clone(&signal), number as usize).map_err(unheard)?;
        }
        Ok(Self { signal })
    }

    /// Whether there was a signal.
    pub(super) fn is_raised(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }

    /// Ends the program as the signal would have done, if there was one.
    pub(super) fn end(&self) {
        let signal = self.signal.load(Ordering::SeqCst);
        if let Some(number) = i32::try_from(signal).ok().filter(|number| *number != 0) {
            // Where that is refused, the program ends as one that failed.
            let _ = low_level::emulate_default_handler(number);
        }
    }
}

/// Ends the program without asking anybody: threads that a driver does not let go, and what waits for them at a usual end.
pub(super) fn leave() -> ! {
    use std::io::Write as _;
    let _ = std::io::stdout().flush();
    low_level::exit(1)
}
