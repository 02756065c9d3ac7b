//! Work of a view on a thread of its own, so that no frame waits for it: the newest question is answered, older ones are given up.

use eframe::egui;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// An answer with its question.
#[derive(Clone, Debug)]
struct Answered<K, V> {
    /// What was asked.
    key: K,
    /// What was found; an error is one line for the user.
    value: Result<Arc<V>, String>,
}

/// What both sides share.
struct Shared<K, V> {
    place: Mutex<Place<K, V>>,
    bell: Condvar,
    /// A newer question waits, or nobody waits for the answer any more.
    newer: AtomicBool,
}

struct Place<K, V> {
    question: Option<(K, egui::Context)>,
    answer: Option<Answered<K, V>>,
    stop: bool,
}

/// Answers a question; the second argument says whether to go on. `None` = it was told not to.
pub(super) type Work<K, V> = Box<dyn FnMut(&K, &dyn Fn() -> bool) -> Option<Result<V, String>> + Send>;

/// The window's end.
pub(super) struct Background<K, V> {
    shared: Arc<Shared<K, V>>,
    /// What begins the thread, with the first question.
    work: Option<Work<K, V>>,
    asked: Option<K>,
    found: Option<Answered<K, V>>,
    /// The last value, which stays in sight until the next one comes.
    shown: Option<Arc<V>>,
}

impl<K, V> std::fmt::Debug for Background<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background").field("begun", &self.work.is_none()).finish_non_exhaustive()
    }
}

impl<K: Clone + PartialEq + Send + 'static, V: Send + Sync + 'static> Background<K, V> {
    /// Nothing runs before the first question.
    pub(super) fn new(work: Work<K, V>) -> Self {
        let place = Place { question: None, answer: None, stop: false };
        let shared = Shared { place: Mutex::new(place), bell: Condvar::new(), newer: AtomicBool::new(false) };
        Self { shared: Arc::new(shared), work: Some(work), asked: None, found: None, shown: None }
    }

    /// Asks, unless that is what was asked last; the window wakes up when there is an answer.
    pub(super) fn ask(&mut self, ctx: &egui::Context, key: K) {
        self.take();
        if self.asked.as_ref() == Some(&key) {
            return;
        }
        if let Some(work) = self.work.take() {
            let theirs = Arc::clone(&self.shared);
            let begun = std::thread::Builder::new().name("view".into()).spawn(move || run(&theirs, work));
            if let Err(error) = begun {
                let value = Err(format!("the system gives no thread: {error}"));
                self.found = Some(Answered { key: key.clone(), value });
            }
        }
        self.asked = Some(key.clone());
        if let Ok(mut place) = self.shared.place.lock() {
            place.question = Some((key, ctx.clone()));
            self.shared.newer.store(true, Ordering::Release);
        }
        self.shared.bell.notify_one();
    }

    fn take(&mut self) {
        let came = self.shared.place.lock().ok().and_then(|mut place| place.answer.take());
        if let Some(answer) = came {
            if let Ok(value) = &answer.value {
                self.shown = Some(Arc::clone(value));
            }
            self.found = Some(answer);
        }
    }

    /// The last value there was.
    pub(super) fn shown(&self) -> Option<&Arc<V>> {
        self.shown.as_ref()
    }

    /// Why the last question has no answer.
    pub(super) fn failure(&self) -> Option<&str> {
        let answer = self.found.as_ref().filter(|found| self.asked.as_ref() == Some(&found.key))?;
        answer.value.as_ref().err().map(String::as_str)
    }

    /// Whether the last question has no answer yet.
    pub(super) fn is_busy(&self) -> bool {
        self.asked.is_some() && self.asked.as_ref() != self.found.as_ref().map(|found| &found.key)
    }
}

fn run<K: Clone, V>(shared: &Shared<K, V>, mut work: Work<K, V>) {
    loop {
        let Ok(mut place) = shared.place.lock() else { return };
        let (key, ctx) = loop {
            if place.stop {
                return;
            }
            if let Some(question) = place.question.take() {
                break question;
            }
            place = match shared.bell.wait(place) {
                Ok(place) => place,
                Err(_) => return,
            };
        };
        shared.newer.store(false, Ordering::Release);
        drop(place);
        let go_on = || !shared.newer.load(Ordering::Acquire);
        // A fault of ours must not leave the view waiting for ever.
        let life = std::panic::AssertUnwindSafe(|| work(&key, &go_on));
        let value = std::panic::catch_unwind(life)
            .unwrap_or_else(|_| Some(Err("an internal fault: change a setting to try again".into())));
        let Some(value) = value else { continue };
        if let Ok(mut place) = shared.place.lock() {
            place.answer = Some(Answered { key, value: value.map(Arc::new) });
        }
        ctx.request_repaint();
    }
}

impl<K, V> Drop for Background<K, V> {
    fn drop(&mut self) {
        if let Ok(mut place) = self.shared.place.lock() {
            (place.stop, place.question) = (true, None);
        }
        // The thread ends by itself; nobody waits for what it is at.
        self.shared.newer.store(true, Ordering::Release);
        self.shared.bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn wait<K: Clone + PartialEq + Send + 'static, V: Send + Sync + 'static>(it: &mut Background<K, V>) {
        let since = Instant::now();
        while it.is_busy() {
            assert!(since.elapsed() < Duration::from_secs(20), "no answer");
            std::thread::sleep(Duration::from_millis(1));
            it.take();
        }
    }

    #[test]
    fn the_newest_question_is_answered_and_faults_are_told() {
        let work: Work<u32, u32> = Box::new(|key, go_on| match key {
            0 => {
                while go_on() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                None
            }
            7 => Some(Err("seven".into())),
            8 => panic!("a fault"),
            key => Some(Ok(2 * key)),
        });
        let (ctx, mut it) = (egui::Context::default(), Background::new(work));
        assert!(!it.is_busy());
        // The first one never ends by itself.
        it.ask(&ctx, 0);
        it.ask(&ctx, 21);
        wait(&mut it);
        assert_eq!(it.shown().map(|v| **v), Some(42));
        it.ask(&ctx, 7);
        wait(&mut it);
        assert_eq!(it.failure(), Some("seven"));
        assert_eq!(it.shown().map(|v| **v), Some(42), "what was found before stays");
        it.ask(&ctx, 8);
        wait(&mut it);
        assert!(it.failure().is_some_and(|why| why.contains("internal fault")));
        it.ask(&ctx, 3);
        wait(&mut it);
        assert_eq!((it.failure(), it.shown().map(|v| **v)), (None, Some(6)));
    }
}
