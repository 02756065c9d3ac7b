//! The explorer in a test harness, driven as a user would.
#![allow(dead_code, reason = "each test program uses a part of this")]

use eframe::egui::{self, Modifiers, PointerButton, Pos2, vec2};
use egui_kittest::Harness;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wgattn::explorer::{App, Options};

/// Longest wait for a map.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn open(options: Options, size: egui::Vec2) -> Harness<'static, App> {
    open_scaled(options, size, 1.0)
}

pub(crate) fn open_scaled(options: Options, size: egui::Vec2, scale: f32) -> Harness<'static, App> {
    let builder = Harness::builder().with_size(size).with_pixels_per_point(scale).with_max_steps(20);
    let builder = builder.with_theme(egui::Theme::Dark).wgpu_setup(graphics());
    // The harness clears to nothing.
    let options = Options { fill_ground: true, ..options };
    builder.build_eframe(|cc| App::new(cc, options).expect("the app opens"))
}

/// lavapipe where it is, so that pictures compare; otherwise whatever the harness prefers. Asks no more of the device than the
/// default limits; memory comes in small blocks, as in the window.
pub(crate) fn graphics() -> eframe::egui_wgpu::WgpuSetup {
    let mut setup = egui_kittest::wgpu::default_wgpu_setup();
    if let eframe::egui_wgpu::WgpuSetup::CreateNew(new) = &mut setup {
        let usual = std::sync::Arc::clone(&new.device_descriptor);
        new.device_descriptor = std::sync::Arc::new(move |adapter| wgpu::DeviceDescriptor {
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..usual(adapter)
        });
        new.native_adapter_selector = Some(std::sync::Arc::new(|adapters, _| {
            let rank = |a: &&wgpu::Adapter| {
                let info = a.get_info();
                (!info.name.contains("llvmpipe"), info.backend != wgpu::Backend::Vulkan)
            };
            adapters.iter().min_by_key(rank).cloned().ok_or_else(|| "no adapter".to_string())
        }));
    }
    setup
}

pub(crate) fn explorer(sources: &[&str]) -> Harness<'static, App> {
    let sources = sources.iter().map(|s| (*s).to_string()).collect();
    let mut harness = open(Options { sources, ..Options::default() }, vec2(1280.0, 800.0));
    settle(&mut harness);
    harness
}

/// Steps until the map on screen is that of the present settings, or something failed.
pub(crate) fn settle(harness: &mut Harness<'_, App>) {
    let start = Instant::now();
    harness.run_steps(2);
    while !harness.state().is_settled() {
        assert!(start.elapsed() < PATIENCE, "no map: {:?}", harness.state());
        std::thread::sleep(Duration::from_millis(4));
        harness.step();
    }
    harness.run_steps(2);
}

pub(crate) fn file(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("wgattn-explorer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for results");
    folder.join(name)
}

/// A picture with coloured blocks; smooth enough to have neighbours alike.
pub(crate) fn drawn(name: &str, width: u32, height: u32) -> String {
    let path = file(name);
    let pixel = |x: u32, y: u32| {
        let block = (x * 4 / width.max(1) + 3 * (y * 3 / height.max(1))) % 7;
        image::Rgb([(block * 36) as u8, (x * 255 / width.max(1)) as u8, (y * 255 / height.max(1)) as u8])
    };
    image::RgbImage::from_fn(width, height, pixel).save(&path).expect("the picture is written");
    path.display().to_string()
}

pub(crate) fn click(harness: &mut Harness<'_, App>, at: Pos2, button: PointerButton) {
    let press = |pressed| egui::Event::PointerButton { pos: at, button, pressed, modifiers: Modifiers::NONE };
    harness.event(egui::Event::PointerMoved(at));
    harness.step();
    harness.event(press(true));
    harness.step();
    harness.event(press(false));
    harness.step();
}

/// What was copied by Ctrl+Shift+C.
pub(crate) fn copied(harness: &mut Harness<'_, App>) -> Option<String> {
    let key = |pressed| egui::Event::Key {
        key: egui::Key::C,
        physical_key: None,
        pressed,
        repeat: false,
        modifiers: Modifiers::COMMAND | Modifiers::SHIFT,
    };
    // One event is one frame; what was copied is in the output of that frame alone.
    harness.event(key(true));
    harness.step();
    let copied = harness.output().platform_output.commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    // A key that stays down only repeats.
    harness.event(key(false));
    harness.step();
    copied
}
