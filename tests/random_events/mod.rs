//! Random input for the explorer, and memory over time, which a leak would show in.
#![allow(dead_code, reason = "each test program uses a part of this")]

use eframe::egui::{self, Event, Key, Modifiers, PointerButton, Pos2, pos2, vec2};
use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use wgattn::explorer::App;

/// Size of the window that events fall into, and a little beside.
pub(crate) const SIZE: egui::Vec2 = vec2(1280.0, 800.0);

/// Makes a program give freed memory back to the system at once, so that resident memory is what is in use: the usual settings
/// of the C library keep what was once needed, for a map with all pairs of tokens say, and a leak would hide in that.
pub(crate) fn tight(command: &mut Command) -> &mut Command {
    let settings = ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"].map(|name| (name, "65536"));
    command.envs(settings).env("MALLOC_ARENA_MAX", "2")
}

/// How long to go on: `WGATTN_FUZZ_SECONDS`, or a short while.
pub(crate) fn seconds() -> f64 {
    std::env::var("WGATTN_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(15.0)
}

const KEYS: [Key; 27] = [
    Key::F,
    Key::M,
    Key::N,
    Key::R,
    Key::G,
    Key::L,
    Key::B,
    Key::I,
    Key::Tab,
    Key::Space,
    Key::Comma,
    Key::Period,
    Key::Num1,
    Key::Num4,
    Key::Num9,
    Key::Plus,
    Key::Minus,
    Key::Questionmark,
    Key::F1,
    Key::Escape,
    Key::Enter,
    Key::ArrowUp,
    Key::ArrowDown,
    Key::PageUp,
    Key::OpenBracket,
    Key::CloseBracket,
    Key::Delete,
];

/// What a restless user does, always the same.
pub(crate) struct Events {
    state: u64,
    /// What is still to come of a click, a frame each.
    rest: VecDeque<Event>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, rest: VecDeque::new() }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    /// The events of the next frame.
    pub(crate) fn frame(&mut self) -> Vec<Event> {
        if let Some(event) = self.rest.pop_front() {
            return vec![event];
        }
        let x = self.random(SIZE.x as u64 + 20) as f32 - 10.0;
        let at = pos2(x, self.random(SIZE.y as u64 + 20) as f32 - 10.0);
        match self.random(10) {
            0..=3 => vec![Event::PointerMoved(at)],
            4 => vec![press(at, PointerButton::Primary, true)],
            5 => vec![press(at, PointerButton::Primary, false)],
            6 => {
                let button =
                    if self.random(6) == 0 { PointerButton::Secondary } else { PointerButton::Primary };
                self.rest.extend([press(at, button, true), press(at, button, false)]);
                vec![Event::PointerMoved(at)]
            }
            7 => {
                let by = self.random(400) as f32 - 200.0;
                let modifiers = if self.random(4) == 0 { Modifiers::COMMAND } else { Modifiers::NONE };
                vec![Event::MouseWheel {
                    unit: egui::MouseWheelUnit::Point,
                    delta: vec2(0.0, by),
                    phase: egui::TouchPhase::Move,
                    source: egui::MouseWheelSource::Wheel,
                    modifiers,
                }]
            }
            8 => struck(KEYS[self.random(KEYS.len() as u64) as usize], Modifiers::NONE),
            _ => struck([Key::Z, Key::Y, Key::Num0, Key::B][self.random(4) as usize], Modifiers::COMMAND),
        }
    }
}

fn press(pos: Pos2, button: PointerButton, pressed: bool) -> Event {
    Event::PointerButton { pos, button, pressed, modifiers: Modifiers::NONE }
}

fn struck(key: Key, modifiers: Modifiers) -> Vec<Event> {
    let event = |pressed| Event::Key { key, physical_key: None, pressed, repeat: false, modifiers };
    vec![event(true), event(false)]
}

/// What the device reports as wrong.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Vec<String>>>);

impl Faults {
    /// Listens to a window's device in place of the window, which would only log them.
    #[expect(clippy::disallowed_methods, reason = "this device belongs to the window under test")]
    pub(crate) fn listen(&self, device: &wgpu::Device) {
        let found = Arc::clone(&self.0);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut found) = found.lock() {
                found.push(error.to_string());
            }
        }));
    }

    /// Looks at what the engine tells: a fault of its own, or of its device.
    pub(crate) fn look(&self, app: &App) {
        let wrong = |text: &&str| text.contains("internal fault") || text.contains("alidation");
        if let (Some(text), Ok(mut found)) = (app.failure().filter(wrong), self.0.lock()) {
            found.push(text.to_string());
        }
    }

    pub(crate) fn assert_none(&self) {
        let found = self.0.lock().map(|f| f.clone()).unwrap_or_default();
        assert!(found.is_empty(), "{} faults, the first: {}", found.len(), found[0]);
    }
}

/// Parts of a run that memory is told for.
pub(crate) const PARTS: usize = 12;

/// Memory over the time of a run.
pub(crate) struct Memory {
    start: Instant,
    seconds: f64,
    samples: Vec<Sample>,
}

/// MiB at one time.
#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    frames: u64,
    resident: f64,
    device: f64,
    reserved: f64,
}

impl Memory {
    pub(crate) fn new(seconds: f64) -> Self {
        Self { start: Instant::now(), seconds, samples: Vec::new() }
    }

    /// Whether so many parts of the run are over.
    pub(crate) fn is_past(&self, parts: usize) -> bool {
        self.start.elapsed().as_secs_f64() >= self.seconds * parts as f64 / PARTS as f64
    }

    pub(crate) fn look(&mut self, frames: u64, device: &wgpu::Device) {
        let Some(resident) = resident_bytes() else { return };
        let report = device.generate_allocator_report();
        let (device, reserved) = report.map_or((0, 0), |r| (r.total_allocated_bytes, r.total_reserved_bytes));
        let [resident, device, reserved] =
            [resident, device, reserved].map(|bytes| bytes as f64 / f64::from(1 << 20));
        // A look after the end belongs to the last part.
        let at = self.start.elapsed().as_secs_f64().min(self.seconds * 0.999);
        self.samples.push(Sample { at, frames, resident, device, reserved });
    }

    /// The least of some parts: what is in use for a moment, say by a map with all pairs of tokens, is no leak.
    fn least(&self, parts: std::ops::Range<usize>) -> Option<Sample> {
        let part = |s: &Sample| (s.at / self.seconds * PARTS as f64) as usize;
        let samples: Vec<&Sample> = self.samples.iter().filter(|s| parts.contains(&part(s))).collect();
        let least = |of: fn(&Sample) -> f64| samples.iter().map(|s| of(s)).fold(f64::INFINITY, f64::min);
        let (resident, device) = (least(|s| s.resident), least(|s| s.device));
        let last = **samples.last()?;
        Some(Sample { resident, device, reserved: least(|s| s.reserved), ..last })
    }

    /// Prints the series, and compares the middle third with the last.
    ///
    /// `growth` in MiB is what may come in between without being a leak.
    pub(crate) fn assert_flat(&self, growth: f64) {
        println!("   time   frames  resident    device  reserved for it (least of each part)");
        for sample in (0..PARTS).filter_map(|part| self.least(part..part + 1)) {
            let Sample { at, frames, resident, device, reserved } = sample;
            println!("{at:5.0} s {frames:8} {resident:5.0} MiB {device:5.1} MiB {reserved:5.1} MiB");
        }
        let thirds = [self.least(PARTS / 3..2 * PARTS / 3), self.least(2 * PARTS / 3..PARTS)];
        // Where the system does not tell, there is nothing to compare.
        let [Some(middle), Some(last)] = thirds else { return };
        let (resident, device) = (last.resident - middle.resident, last.device - middle.device);
        // On a software driver a block that is reserved for the device is resident memory. What comes and goes shares it: no
        // leak as long as what the device uses stays.
        let blocks = (last.reserved - middle.reserved).max(0.0);
        println!(
            "from the middle third to the last: {resident:+.1} MiB resident, {blocks:.1} MiB in new blocks; {device:+.1} MiB used on the device"
        );
        let grown = resident - blocks;
        assert!(
            grown < growth,
            "resident memory grew by {grown:.1} MiB besides blocks, more than {growth} MiB"
        );
        assert!(device < growth, "memory of the device grew by {device:.1} MiB, more than {growth} MiB");
    }
}

fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}
