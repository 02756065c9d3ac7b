//! Everything that can be done, once: the menu bar, the keyboard and the help window are made from this one list. Keys of single views are
//! in [`super::keys`].

use super::keys::{self, LINES, Own};
use super::widgets::small_print;
use eframe::egui::{self, Context, Event, Key, KeyboardShortcut, Modifiers, RichText, Ui};

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Opens a picture, an animation or a video.
    OpenFile,
    /// Opens a folder of pictures.
    OpenFolder,
    /// Shows a camera.
    Camera,
    /// Shows a part of the screen.
    Screen,
    /// Shows the built-in scene.
    Synthetic,
    /// Shows the picture on the clipboard.
    PasteImage,
    /// Opens queries, keys and values of the user's own model.
    OpenArrays,
    /// Opens a network from a file.
    OpenNetwork,
    /// Saves what is seen as a picture.
    SaveView,
    /// Exports the numbers of the map.
    ExportMap,
    /// Exports the row as a table.
    ExportCsv,
    /// Exports the settings.
    ExportSettings,
    /// Moves a slider from end to end and saves what is seen as an animation.
    CaptureSweep,
    /// Copies the command lines that draw the same.
    CopyCommand,
    /// Saves settings, source and layout.
    SaveSession,
    /// Restores them.
    RestoreSession,
    /// Reads the source again.
    Reload,
    /// Ends the program.
    Quit,
    /// Takes the last change back.
    Undo,
    /// Makes it again.
    Redo,
    /// Sets all settings to their defaults.
    ResetSettings,
    /// Shows the whole picture.
    Fit,
    /// One point of the screen per pixel.
    ActualSize,
    /// Larger.
    ZoomIn,
    /// Smaller.
    ZoomOut,
    /// Raw, attention, error, mask, in turn.
    CycleView,
    /// The next colour map.
    CycleColours,
    /// Back to a colour range that fits.
    NormaliseRange,
    /// Flags over numbers that are not finite, or not.
    FlagBad,
    /// Landmarks on the picture, or not.
    Landmarks,
    /// The next mask of relative positions.
    CycleRelativeMask,
    /// The mean of the heads.
    MeanOfHeads,
    /// One head, counted from 0.
    Head(u8),
    /// Keeps the row in sight as the reference.
    SetReference,
    /// Shows the reference.
    ShowReference,
    /// Shows the picture without a map.
    PeekOriginal,
    /// Only the picture.
    HideUi,
    /// The whole screen.
    FullScreen,
    /// Plays or pauses.
    PlayPause,
    /// A picture back.
    StepBack,
    /// A picture on.
    StepForward,
    /// The file before.
    PreviousPicture,
    /// The next file.
    NextPicture,
    /// All keys.
    Help,
    /// The guided tour.
    Tour,
    /// About adapter and picture.
    Information,
}

/// The menus of the bar, in order.
pub const MENUS: [&str; 5] = ["File", "Edit", "View", "Playback", "Help"];

/// What there is to tell about an action.
#[derive(Debug)]
pub struct ActionInfo {
    /// Which.
    pub action: Action,
    /// Name in menus; an ellipsis where a dialogue follows.
    pub name: &'static str,
    /// Menu, and submenu if there is one.
    pub menu: &'static [&'static str],
    /// Group within the menu; a line is drawn between groups.
    pub group: u8,
    /// Keys, the first one printed in the menu.
    pub keys: &'static [KeyboardShortcut],
    /// What the mouse or a held key does instead: `Right click`.
    pub gesture: Option<&'static str>,
    /// One sentence.
    pub hover: &'static str,
}

const NONE: Modifiers = Modifiers::NONE;
const CTRL: Modifiers = Modifiers::COMMAND;
const CTRL_SHIFT: Modifiers = Modifiers { shift: true, ..Modifiers::COMMAND };

const fn key(modifiers: Modifiers, key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(modifiers, key)
}

/// Fields in order: action, name, menu, group, keys, gesture or nothing, sentence.
macro_rules! actions {
    ($($action:expr, $name:literal, $menu:expr, $group:literal, [$($key:expr),*], $gesture:expr, $hover:literal;)*) => {
        &[$(ActionInfo {
            action: $action,
            name: $name,
            menu: &$menu,
            group: $group,
            keys: &[$($key),*],
            gesture: $gesture,
            hover: $hover,
        }),*]
    };
}

/// All actions, in the order of the menus.
#[rustfmt::skip]
pub static ACTIONS: &[ActionInfo] = {
    use Action::*;
    actions![
        OpenFile, "Open file…", ["File"], 0, [key(CTRL, Key::O)], Some("Drop a file"), "Opens a picture, an animation or a video.";
        OpenFolder, "Open folder…", ["File"], 0, [key(CTRL_SHIFT, Key::O)], Some("Drop a folder"), "Opens the pictures of a folder.";
        Camera, "Camera", ["File"], 0, [], None, "Shows what a camera sees.";
        Screen, "Screen", ["File"], 0, [], None, "Shows a part of the screen.";
        Synthetic, "Synthetic scene", ["File"], 0, [], None, "Shows the built-in moving scene.";
        PasteImage, "Paste image", ["File"], 0, [key(CTRL, Key::V)], None, "Shows the picture on the clipboard.";
        Reload, "Reload", ["File"], 0, [key(NONE, Key::F5)], None, "Reads the file or folder again.";
        OpenArrays, "Open q, k, v arrays…", ["File"], 1, [], None, "Opens queries, keys and values of your own model from .npz or .safetensors.";
        OpenNetwork, "Open network…", ["File"], 1, [], Some("Drop a file"), "Opens a graph: edge list (.csv, .tsv, .txt), Matrix Market, GraphML or an OBJ mesh.";
        SaveView, "Save view as PNG…", ["File", "Export"], 2, [key(CTRL, Key::S)], None, "Saves the view as it is seen.";
        ExportMap, "Map as numbers…", ["File", "Export"], 2, [key(CTRL_SHIFT, Key::S)], None, "Saves the map itself: 16-bit grey .png, .npy, .npz or .safetensors.";
        ExportCsv, "Row as CSV…", ["File", "Export"], 2, [], None, "Saves every token's place and values as a table.";
        ExportSettings, "Settings as JSON…", ["File", "Export"], 2, [], None, "Saves all settings.";
        CaptureSweep, "Capture a sweep…", ["File", "Export"], 3, [], None, "Moves a slider from end to end and saves the view as an animated GIF.";
        CopyCommand, "Copy as command", ["File"], 2, [key(CTRL_SHIFT, Key::C)], None, "Copies the commands that draw what is in sight.";
        SaveSession, "Save session…", ["File"], 3, [], None, "Saves settings, masks, source and layout.";
        RestoreSession, "Restore session…", ["File"], 3, [], None, "Brings a saved session back.";
        Quit, "Quit", ["File"], 4, [key(CTRL, Key::Q)], None, "Ends the explorer; the session is kept.";

        Undo, "Undo", ["Edit"], 0, [key(CTRL, Key::Z)], None, "Takes the last change back.";
        Redo, "Redo", ["Edit"], 0, [key(CTRL_SHIFT, Key::Z), key(CTRL, Key::Y)], None, "Makes the change again that was taken back.";
        ResetSettings, "Reset settings", ["Edit"], 1, [key(NONE, Key::R)], None, "Sets all settings to their defaults; masks stay.";

        Fit, "Fit", ["View"], 0, [key(NONE, Key::F)], None, "Shows the whole picture.";
        ActualSize, "Actual size", ["View"], 0, [key(CTRL, Key::Num0)], None, "A point of the screen for every pixel.";
        ZoomIn, "Zoom in", ["View"], 0, [key(NONE, Key::Plus), key(NONE, Key::Equals)], Some("Wheel up"), "Enlarges the picture.";
        ZoomOut, "Zoom out", ["View"], 0, [key(NONE, Key::Minus)], Some("Wheel down"), "Makes the picture smaller.";
        CycleView, "Next layer", ["View"], 1, [key(NONE, Key::Tab)], None, "Raw picture, attention, error and mask in turn.";
        CycleColours, "Next colour map", ["View"], 1, [key(NONE, Key::M)], None, "Goes through the colour maps.";
        NormaliseRange, "Fit colour range", ["View"], 1, [key(NONE, Key::N)], None, "Lets the colours span the numbers of the map again.";
        FlagBad, "Flag bad numbers", ["View"], 1, [key(NONE, Key::G)], None, "NaN red and infinities green, over any colour map.";
        Landmarks, "Show landmarks", ["View"], 1, [key(NONE, Key::L)], None, "Draws the landmarks over the picture.";
        CycleRelativeMask, "Next relative mask", ["View"], 1, [key(NONE, Key::W)], None, "Goes through masks of relative positions: discs, squares, causal and others.";
        MeanOfHeads, "Mean of heads", ["View", "Heads"], 2, [key(NONE, Key::Num0)], None, "Shows the mean over all heads.";
        Head(0), "Head 1", ["View", "Heads"], 2, [key(NONE, Key::Num1)], None, "Shows head 1 alone.";
        Head(1), "Head 2", ["View", "Heads"], 2, [key(NONE, Key::Num2)], None, "Shows head 2 alone.";
        Head(2), "Head 3", ["View", "Heads"], 2, [key(NONE, Key::Num3)], None, "Shows head 3 alone.";
        Head(3), "Head 4", ["View", "Heads"], 2, [key(NONE, Key::Num4)], None, "Shows head 4 alone.";
        Head(4), "Head 5", ["View", "Heads"], 2, [key(NONE, Key::Num5)], None, "Shows head 5 alone.";
        Head(5), "Head 6", ["View", "Heads"], 2, [key(NONE, Key::Num6)], None, "Shows head 6 alone.";
        Head(6), "Head 7", ["View", "Heads"], 2, [key(NONE, Key::Num7)], None, "Shows head 7 alone.";
        Head(7), "Head 8", ["View", "Heads"], 2, [key(NONE, Key::Num8)], None, "Shows head 8 alone.";
        Head(8), "Head 9", ["View", "Heads"], 2, [key(NONE, Key::Num9)], None, "Shows head 9 alone.";
        SetReference, "Set as reference", ["View"], 3, [], Some("Right click"), "Keeps what is in sight to compare with.";
        ShowReference, "Show reference", ["View"], 3, [], Some("Hold Shift"), "Shows the reference while it is held.";
        PeekOriginal, "Peek at the picture", ["View"], 3, [], Some("Hold Alt"), "Shows the picture without a map while it is held.";
        HideUi, "Hide panels", ["View"], 4, [key(NONE, Key::B), key(CTRL, Key::B)], None, "Leaves only the picture.";
        FullScreen, "Full screen", ["View"], 4, [key(NONE, Key::F11)], None, "Takes the whole screen.";

        PlayPause, "Play or pause", ["Playback"], 0, [key(NONE, Key::Space)], None, "Lets a moving source run, or stops it.";
        StepBack, "Step back", ["Playback"], 0, [key(NONE, Key::Comma)], None, "One picture back.";
        StepForward, "Step forward", ["Playback"], 0, [key(NONE, Key::Period)], None, "One picture on.";
        PreviousPicture, "Previous picture", ["Playback"], 1, [key(NONE, Key::PageUp), key(NONE, Key::ArrowUp)], None, "The file before this one.";
        NextPicture, "Next picture", ["Playback"], 1, [key(NONE, Key::PageDown), key(NONE, Key::ArrowDown)], None, "The file after this one.";

        Tour, "Guided tour", ["Help"], 0, [key(NONE, Key::F1)], None, "Explains what there is to see, page by page.";
        Help, "Keys and mouse", ["Help"], 0, [key(NONE, Key::Questionmark)], None, "Lists all keys.";
        Information, "Adapter and picture", ["Help"], 1, [key(NONE, Key::I)], None, "Tells about the device and the picture.";
    ]
};

impl Action {
    /// What there is to tell about it.
    pub fn info(self) -> Option<&'static ActionInfo> {
        ACTIONS.iter().find(|info| info.action == self)
    }
}

/// Draws the menu bar; what was chosen.
///
/// `enabled` tells whether an action can be done now.
pub fn menu_bar(ui: &mut Ui, enabled: impl Fn(Action) -> bool) -> Vec<Action> {
    egui::MenuBar::new().ui(ui, |ui| menus(ui, &enabled)).inner
}

/// Draws the menus into a bar that is there already, so that others can stand beside them.
pub fn menus(ui: &mut Ui, enabled: &impl Fn(Action) -> bool) -> Vec<Action> {
    let mut chosen = Vec::new();
    for menu in MENUS {
        ui.menu_button(menu, |ui| {
            ui.set_min_width(220.0);
            entries(ui, &[menu], enabled, &mut chosen);
        });
    }
    chosen
}

/// The entries of a menu; a submenu stands where its first entry would.
fn entries(ui: &mut Ui, path: &[&str], enabled: &impl Fn(Action) -> bool, chosen: &mut Vec<Action>) {
    let mut group = None;
    let mut drawn: Vec<&str> = Vec::new();
    for info in ACTIONS.iter().filter(|info| info.menu.starts_with(path)) {
        let sub = info.menu.get(path.len()).copied();
        if sub.is_some_and(|sub| drawn.contains(&sub)) {
            continue;
        }
        if group.is_some_and(|group| group != info.group) {
            ui.separator();
        }
        group = Some(info.group);
        match sub {
            Some(sub) => {
                drawn.push(sub);
                let inner: Vec<&str> = path.iter().copied().chain([sub]).collect();
                ui.menu_button(sub, |ui| {
                    ui.set_min_width(220.0);
                    entries(ui, &inner, enabled, chosen);
                });
            }
            None => entry(ui, info, enabled(info.action), chosen),
        }
    }
}

fn entry(ui: &mut Ui, info: &ActionInfo, enabled: bool, chosen: &mut Vec<Action>) {
    let shortcut = info.keys.first().map(|key| key_name(ui.ctx(), key));
    let mut button = egui::Button::new(info.name).wrap_mode(egui::TextWrapMode::Extend);
    if let Some(text) = shortcut.or_else(|| info.gesture.map(str::to_string)) {
        button = button.shortcut_text(text);
    }
    let response =
        ui.add_enabled(enabled, button).on_hover_text(info.hover).on_disabled_hover_text(info.hover);
    if response.clicked() {
        chosen.push(info.action);
        ui.close();
    }
}

/// A key as it is printed: `Ctrl+Shift+Z`, `?`.
pub fn key_name(ctx: &Context, key: &KeyboardShortcut) -> String {
    if key.modifiers == NONE {
        let name = match key.logical_key {
            Key::PageUp => "Page up",
            Key::PageDown => "Page down",
            Key::ArrowUp => "Up",
            Key::ArrowDown => "Down",
            Key::ArrowLeft => "Left",
            Key::ArrowRight => "Right",
            Key::Escape => "Esc",
            Key::Minus => "−",
            other => other.symbol_or_name(),
        };
        return name.to_string();
    }
    ctx.format_shortcut(key)
}

/// What was asked for by the keyboard since the last frame; those keys go no further.
///
/// Call it before anything is drawn. While text is being typed, only what cannot be text is taken; while a control has
/// the keyboard, the keys that it understands stay its own.
pub fn pressed(ctx: &Context) -> Vec<Action> {
    let typing = ctx.text_edit_focused();
    let focused = ctx.memory(|memory| memory.focused().is_some());
    let mut found = Vec::new();
    let pasted_id = egui::Id::unique("wgattn pasted");
    let mut pasted = ctx.data(|data| data.get_temp::<bool>(pasted_id)).unwrap_or(false);
    ctx.input_mut(|input| {
        let dragging = input.pointer.any_down();
        input.events.retain(|event| {
            let action = match event {
                // Window systems turn Ctrl+V into an event with the picture, which is for the program to take, or with
                // text, or into nothing but the key's release. What is asked for again then answers with the former.
                Event::PasteImage(_) => {
                    pasted = true;
                    return true;
                }
                Event::Key { key: Key::V, pressed: false, modifiers, .. } => {
                    let first = !std::mem::take(&mut pasted);
                    if first && !typing && modifiers.matches_exact(CTRL) {
                        found.push(Action::PasteImage);
                    }
                    return true;
                }
                Event::Key { key, pressed: true, repeat, modifiers, .. } => {
                    let asked = find(*modifiers, *key).filter(|(action, shortcut)| {
                        let free = match (typing, focused) {
                            (true, _) => allowed_while_typing(shortcut),
                            (false, true) => !means_something_to_controls(shortcut),
                            (false, false) => true,
                        };
                        let still = *action != Action::PlayPause || !dragging;
                        free && still && (!repeat || repeats(*action))
                    });
                    pasted |= asked.is_some_and(|(action, _)| action == Action::PasteImage);
                    asked
                }
                _ => None,
            };
            match action {
                Some((action, _)) => {
                    found.push(action);
                    false
                }
                None => true,
            }
        });
    });
    ctx.data_mut(|data| data.insert_temp(pasted_id, pasted));
    if found.contains(&Action::CycleView) {
        // Otherwise Tab would also walk on to the first control.
        ctx.memory_mut(|memory| memory.move_focus(egui::FocusDirection::None));
    }
    found
}

/// The action of a key with what is held beside it.
fn find(modifiers: Modifiers, key: Key) -> Option<(Action, &'static KeyboardShortcut)> {
    // Which keys need Shift for these signs differs by keyboard.
    let sign =
        matches!(key, Key::Questionmark | Key::Plus | Key::Equals | Key::Minus | Key::Comma | Key::Period);
    let fits = |shortcut: &KeyboardShortcut| {
        let right = match sign {
            true => modifiers.matches_logically(shortcut.modifiers) && !modifiers.alt,
            false => modifiers.matches_exact(shortcut.modifiers),
        };
        right && shortcut.logical_key == key
    };
    ACTIONS.iter().find_map(|info| info.keys.iter().find(|k| fits(k)).map(|k| (info.action, k)))
}

/// Whether a key cannot be meant for a field that text is typed into.
fn allowed_while_typing(shortcut: &KeyboardShortcut) -> bool {
    match shortcut.logical_key {
        Key::F1 | Key::F5 | Key::F11 => true,
        Key::O | Key::S | Key::Q => shortcut.modifiers.command,
        _ => false,
    }
}

/// Whether a control that has the keyboard makes something of a key: sliders move, buttons are pressed.
fn means_something_to_controls(shortcut: &KeyboardShortcut) -> bool {
    let key = shortcut.logical_key;
    matches!(key, Key::Space | Key::Tab | Key::ArrowUp | Key::ArrowDown) && shortcut.modifiers == NONE
}

/// Whether holding the key does it again and again.
fn repeats(action: Action) -> bool {
    use Action::{NextPicture, PreviousPicture, Redo, StepBack, StepForward, Undo, ZoomIn, ZoomOut};
    matches!(action, NextPicture | PreviousPicture | Redo | StepBack | StepForward | Undo | ZoomIn | ZoomOut)
}

/// Keys that do something while they are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Shift: the reference.
    pub reference: bool,
    /// Alt: the picture without a map.
    pub original: bool,
}

/// What is held now. Nothing counts while text is typed or the pointer drags: there Shift means finely.
pub fn held(ctx: &Context) -> Held {
    if ctx.text_edit_focused() {
        return Held::default();
    }
    ctx.input(|input| {
        let still = !input.pointer.any_down();
        Held {
            reference: still && input.modifiers == Modifiers::SHIFT,
            original: still && input.modifiers == Modifiers::ALT,
        }
    })
}

/// The window that lists all keys.
pub fn help_window(ctx: &Context, open: &mut bool) {
    if *open && Own::Close.pressed(ctx) {
        *open = false;
    }
    let screen = ctx.content_rect();
    // As many columns as fit beside each other; the lists are about equally long then.
    let columns: &[&[&str]] = match screen.width() {
        w if w >= 1080.0 => &[
            &["File", "Edit", "Help"],
            &["View", keys::MASK],
            &["Playback", keys::MOUSE, keys::GRAPHS, keys::WINDOWS],
        ],
        w if w >= 740.0 => &[
            &["File", "Edit", "Help", keys::MASK, keys::WINDOWS],
            &["View", "Playback", keys::MOUSE, keys::GRAPHS],
        ],
        _ => &[&[
            "File",
            "Edit",
            "View",
            "Playback",
            "Help",
            keys::MOUSE,
            keys::MASK,
            keys::GRAPHS,
            keys::WINDOWS,
        ]],
    };
    let height = (screen.height() - 90.0).max(120.0);
    egui::Window::new("Keys and mouse")
        .open(open)
        .collapsible(false)
        .auto_sized()
        .pivot(egui::Align2::CENTER_CENTER)
        .default_pos(screen.center())
        .constrain(true)
        .show(ctx, |ui| {
            ui.add_space(4.0);
            egui::ScrollArea::vertical().max_height(height).auto_shrink([true, true]).show(ui, |ui| {
                ui.horizontal_top(|ui| {
                    ui.spacing_mut().item_spacing.x = 32.0;
                    for sections in columns {
                        ui.vertical(|ui| sections.iter().for_each(|section| help_section(ui, section)));
                    }
                });
            });
        });
}

fn help_section(ui: &mut Ui, section: &str) {
    if keys::SECTIONS.contains(&section) {
        let lines = LINES.iter().filter(|line| line.section == section);
        return help_grid(ui, section, |ui| lines.for_each(|line| help_row(ui, line.what, line.how, "")));
    }
    help_grid(ui, section, |ui| {
        for info in ACTIONS.iter().filter(|info| info.menu.first() == Some(&section)) {
            match info.action {
                // Nine rows would say the same.
                Action::Head(0) => help_row(ui, "Head 1 to 9", "1 to 9", "Shows that head alone."),
                Action::Head(_) => {}
                _ => help_row(ui, info.name.trim_end_matches('…'), &ways(ui.ctx(), info), info.hover),
            }
        }
    });
}

/// All ways to an action but the menu.
fn ways(ctx: &Context, info: &ActionInfo) -> String {
    let keys: Vec<String> = info.keys.iter().map(|key| key_name(ctx, key)).collect();
    match (keys.is_empty(), info.gesture) {
        (_, None) => keys.join(", "),
        (true, Some(gesture)) => gesture.to_string(),
        (false, Some(gesture)) => format!("{}, {}", keys.join(", "), gesture.to_lowercase()),
    }
}

fn help_grid(ui: &mut Ui, title: &str, rows: impl FnOnce(&mut Ui)) {
    ui.spacing_mut().item_spacing.x = 8.0;
    ui.label(RichText::new(title).strong());
    egui::Grid::new(("help", title))
        .num_columns(2)
        .spacing([16.0, 4.0])
        .min_col_width(130.0)
        .min_row_height(0.0)
        .show(ui, rows);
    ui.add_space(8.0);
}

fn help_row(ui: &mut Ui, name: &str, keys: &str, hover: &str) {
    let label = ui.label(RichText::new(name).size(small_print(ui)));
    if !hover.is_empty() {
        label.on_hover_text(hover);
    }
    let keys = if keys.is_empty() { RichText::new("Menu").weak() } else { RichText::new(keys).strong() };
    ui.label(keys.size(small_print(ui)));
    ui.end_row();
}
