//! What the window tells its user for a while, above the status bar: what was done, and, in the colour of errors, what could
//! not be done.

use super::App;
use eframe::egui;
use std::time::{Duration, Instant};

/// How long what was done stays to be read.
const NOTE: Duration = Duration::from_secs(8);

/// How long what failed stays: there is more to read, and more to do about it.
const FAILURE: Duration = Duration::from_secs(20);

/// What sort of news it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewsKind {
    /// Something was done, or is worth knowing.
    Note,
    /// Something that was asked for was not done.
    Failure,
}

/// One line for the user.
#[derive(Clone, Debug)]
pub(super) struct News {
    text: String,
    kind: NewsKind,
    since: Instant,
}

impl News {
    /// News of now.
    pub(super) fn new(kind: NewsKind, text: impl Into<String>) -> Self {
        Self { text: text.into(), kind, since: Instant::now() }
    }

    /// Time that it still stands; `None` where that is over.
    fn left(&self) -> Option<Duration> {
        let all = match self.kind {
            NewsKind::Note => NOTE,
            NewsKind::Failure => FAILURE,
        };
        all.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }
}

impl App {
    /// Tells the user something for a while.
    pub(super) fn tell(&mut self, text: impl Into<String>) {
        self.news = Some(News::new(NewsKind::Note, text));
    }

    /// Tells the user what was not done, and why.
    pub(super) fn tell_failure(&mut self, text: impl Into<String>) {
        self.news = Some(News::new(NewsKind::Failure, text));
    }

    /// Tells how something went.
    pub(super) fn tell_outcome(&mut self, outcome: Result<String, String>) {
        match outcome {
            Ok(text) => self.tell(text),
            Err(why) => self.tell_failure(why),
        }
    }

    /// What was told last, for tests.
    pub fn news(&self) -> Option<&str> {
        self.news.as_ref().map(|news| news.text.as_str())
    }

    /// What sort of news that is, for tests.
    pub fn news_kind(&self) -> Option<NewsKind> {
        self.news.as_ref().map(|news| news.kind)
    }

    /// Draws the line as long as it stands.
    pub(super) fn news_line(&self, ui: &mut egui::Ui) {
        let Some((news, left)) = self.news.as_ref().and_then(|news| Some((news, news.left()?))) else {
            return;
        };
        match news.kind {
            NewsKind::Note => ui.label(&news.text),
            NewsKind::Failure => ui.colored_label(ui.visuals().error_fg_color, &news.text),
        };
        ui.ctx().request_repaint_after(left);
    }
}
