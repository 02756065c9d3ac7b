//! Keys that views and windows take themselves, beside those of actions: what handles a key asks here for it, and the help prints it.

use eframe::egui::{Context, Key, Modifiers};

/// What a key does to the view or window that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// A smaller brush, a shorter time, a lower rate.
    Less,
    /// A larger brush, a longer time, a higher rate.
    More,
    /// Removes what is chosen.
    Remove,
    /// Gives up what was begun.
    GiveUp,
    /// Plays or pauses the sweeps of a tree.
    Play,
    /// A part of the sweeps back.
    PartBack,
    /// A part of the sweeps on.
    PartOn,
    /// While it is held, dragging moves the picture whatever tool is in hand.
    Grab,
    /// The next page of the tour.
    NextPage,
    /// The page of the tour before.
    PreviousPage,
    /// Closes a window that lies over the views.
    Close,
    /// Takes the path that was typed.
    Accept,
}

impl Own {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Less,
        Self::More,
        Self::Remove,
        Self::GiveUp,
        Self::Play,
        Self::PartBack,
        Self::PartOn,
        Self::Grab,
        Self::NextPage,
        Self::PreviousPage,
        Self::Close,
        Self::Accept,
    ];

    /// Its keys; any of them will do.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Less => &[Key::OpenBracket],
            Self::More => &[Key::CloseBracket],
            Self::Remove => &[Key::Delete, Key::Backspace],
            Self::GiveUp | Self::Close => &[Key::Escape],
            Self::Play => &[Key::P],
            Self::PartBack => &[Key::J],
            Self::PartOn => &[Key::K],
            Self::Grab => &[Key::Space],
            Self::NextPage => &[Key::ArrowRight, Key::ArrowDown, Key::PageDown],
            Self::PreviousPage => &[Key::ArrowLeft, Key::ArrowUp, Key::PageUp],
            Self::Accept => &[Key::Enter],
        }
    }

    /// Whether it was pressed since the last frame; those keys go no further.
    pub fn pressed(self, ctx: &Context) -> bool {
        self.pressed_but_for(ctx, &[])
    }

    /// The same without some of its keys, which another control takes.
    pub fn pressed_but_for(self, ctx: &Context, others: &[Key]) -> bool {
        let mine = self.keys().iter().filter(|key| !others.contains(key));
        ctx.input_mut(|i| mine.filter(|key| i.consume_key(Modifiers::NONE, **key)).count() > 0)
    }

    /// Whether it was pressed since the last frame, by a control that has taken the key already.
    pub fn seen(self, ctx: &Context) -> bool {
        ctx.input(|i| self.keys().iter().any(|key| i.key_pressed(*key)))
    }

    /// Whether it is held.
    pub fn held(self, ctx: &Context) -> bool {
        ctx.input(|i| self.keys().iter().any(|key| i.key_down(*key)))
    }
}

/// The arrows, which a control that has the keyboard keeps.
pub const ARROWS: [Key; 4] = [Key::ArrowLeft, Key::ArrowRight, Key::ArrowUp, Key::ArrowDown];

/// Sections of the help that are no menus.
pub const SECTIONS: [&str; 4] = [MOUSE, MASK, GRAPHS, WINDOWS];

/// What the mouse does that is no action.
pub const MOUSE: &str = "Mouse";
/// What the tools of the mask view do.
pub const MASK: &str = "Mask tools";
/// What can be done in views of diffusions, networks and trees.
pub const GRAPHS: &str = "Diffusion, network, tree";
/// Keys of windows that lie over the views.
pub const WINDOWS: &str = "Tour and windows";

/// A line of the help that is no action's.
#[derive(Debug)]
pub struct Line {
    /// One of [`SECTIONS`].
    pub section: &'static str,
    /// What can be done.
    pub what: &'static str,
    /// How: a gesture, or names of keys.
    pub how: &'static str,
    /// Keys that `how` names.
    pub keys: &'static [Own],
}

/// Fields in order: section, what, how, keys.
macro_rules! lines {
    ($($section:expr, $what:literal, $how:literal, [$($key:expr),*];)*) => {
        &[$(Line { section: $section, what: $what, how: $how, keys: &[$($key),*] }),*]
    };
}

/// All lines, section by section.
#[rustfmt::skip]
pub static LINES: &[Line] = {
    use Own::*;
    lines![
        MOUSE, "Choose the query", "Click", [];
        MOUSE, "Move the picture", "Drag, or drag with Space", [Grab];
        MOUSE, "Zoom at the pointer", "Wheel", [];
        MOUSE, "Read the numbers", "Rest the pointer", [];
        MOUSE, "Reset a slider", "Double-click", [];
        MOUSE, "Move a slider finely", "Shift and drag", [];
        MOUSE, "Type a number", "Click the number", [];

        MASK, "Brush, eraser, rectangle", "Drag", [];
        MASK, "Fill", "Click", [];
        MASK, "Link two regions", "Drag from one to the other", [];
        MASK, "Size of brush and eraser", "[ and ]", [Less, More];
        MASK, "Remove the chosen link", "Delete, Backspace", [Remove];
        MASK, "Give up a stroke or choice", "Esc", [GiveUp];

        GRAPHS, "Time t, or rate λ of a tree", "[ and ]", [Less, More];
        GRAPHS, "Size of the brush that cuts", "[ and ]", [Less, More];
        GRAPHS, "Cut edges, erase cuts", "Drag", [];
        GRAPHS, "Link two places", "Drag, or click both", [];
        GRAPHS, "Give up a link", "Esc", [GiveUp];
        GRAPHS, "Choose a node, move it", "Click, drag", [];
        GRAPHS, "Show all of a network", "Double-click beside it", [];
        GRAPHS, "Play or pause the sweeps", "P", [Play];
        GRAPHS, "A part back, a part on", "J and K", [PartBack, PartOn];

        WINDOWS, "Next page of the tour", "Right, Down, Page down", [NextPage];
        WINDOWS, "Page of the tour before", "Left, Up, Page up", [PreviousPage];
        WINDOWS, "Close tour, help or path", "Esc", [Close];
        WINDOWS, "Take the path", "Enter", [Accept];
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::actions::{ACTIONS, key_name};
    use eframe::egui::KeyboardShortcut;
    use std::path::{Path, PathBuf};

    fn printed(key: Key) -> String {
        key_name(&Context::default(), &KeyboardShortcut::new(Modifiers::NONE, key))
    }

    #[test]
    fn every_key_that_is_handled_is_in_the_help() {
        for own in Own::ALL {
            let lines: Vec<&Line> = LINES.iter().filter(|line| line.keys.contains(&own)).collect();
            assert!(!lines.is_empty(), "{own:?}");
            for (line, key) in lines.iter().flat_map(|line| own.keys().iter().map(move |key| (line, key))) {
                // As a word of its own: "P" is no part of "Page up".
                let (name, how) = (printed(*key), format!(" {} ", line.how.replace(',', " ")));
                assert!(how.contains(&format!(" {name} ")), "{own:?}: {name:?} is not in {:?}", line.how);
            }
        }
        assert!(LINES.iter().all(|line| SECTIONS.contains(&line.section)));
    }

    /// Keys of actions are taken before views see them.
    #[test]
    fn no_key_belongs_to_an_action_and_to_a_view_at_once() {
        let actions = ACTIONS.iter().flat_map(|info| info.keys.iter().map(move |key| (info.name, key)));
        let plain: Vec<_> = actions.filter(|(_, key)| key.modifiers == Modifiers::NONE).collect();
        for own in Own::ALL {
            // The tour takes its keys before actions do, and Space plays only while no button is held.
            if matches!(own, Own::NextPage | Own::PreviousPage | Own::Grab) {
                continue;
            }
            for key in own.keys() {
                let taken = plain.iter().find(|(_, other)| other.logical_key == *key);
                assert!(taken.is_none(), "{own:?}: {taken:?}");
            }
        }
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("a file").path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    #[test]
    fn no_key_is_handled_beside_the_two_lists() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/explorer");
        let mut files = Vec::new();
        sources(&folder, &mut files);
        assert!(files.len() > 50, "{files:?}");
        for file in files.iter().filter(|file| !file.ends_with("keys.rs") && !file.ends_with("actions.rs")) {
            let text = std::fs::read_to_string(file).expect("source");
            for (number, line) in text.lines().enumerate() {
                let named = line.match_indices("Key::").any(|(at, found)| {
                    let before = line[..at].chars().next_back();
                    let after = line[at + found.len()..].chars().next();
                    before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
                        && after.is_some_and(|c| c.is_ascii_uppercase())
                });
                assert!(!named, "{}:{}: {line}: list the key in keys.rs", file.display(), number + 1);
            }
        }
    }
}
