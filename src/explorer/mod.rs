//! The desktop explorer: attention of a clicked pixel over live pictures, masks painted by hand, and why it is so.
//!
//! The window and the engine share one device. The engine works on a thread of its own ([`engine`]): the newest request
//! wins, work is cut into short submissions so that frames pass between them, and pictures stay on the device. What the
//! window shows is a list of [`views`]; what the user made is a [`document`], which undo and sessions go through.

pub mod actions;
pub mod analysis;
mod app;
pub mod arrays_source;
mod background;
pub mod canvas;
pub mod command;
pub mod document;
pub mod engine;
pub mod export;
pub mod fonts;
pub mod keys;
pub mod mask;
pub mod networks;
pub mod panel;
pub mod position;
pub mod probe;
mod quad;
pub mod relative_mask;
pub mod session;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod textures;
pub mod theme;
mod tokens;
pub mod tour;
pub mod views;
pub mod widgets;

pub use app::{App, FrameHook, InputHook, NewsKind, Options};

use eframe::egui_wgpu::WgpuSetup;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Why there is no window.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// Neither X11 nor Wayland: a console, or SSH without a display.
    #[error("no display: {reason}; `wgattn map IMAGE --at X,Y` draws a map without a window")]
    NoDisplay {
        /// What was looked for.
        reason: String,
    },
    /// No driver that can draw a window.
    #[error(
        "no graphics driver can draw a window ({reason}); install one (Debian: mesa-vulkan-drivers), or use `wgattn map`, which also runs on the CPU"
    )]
    NoDriver {
        /// What was found.
        reason: String,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Size of a new window in points: with a title bar and a panel of the desktop it fits on a screen of 1280 × 800.
pub const WINDOW_SIZE: [f32; 2] = [1200.0, 720.0];

/// Size of a window that only has its picture taken, in points.
pub const SCREENSHOT_SIZE: [f32; 2] = [1280.0, 800.0];

/// What a desktop needs of a monitor beside a window, in points: its borders, title bar and panels.
const DESKTOP: eframe::egui::Vec2 = eframe::egui::vec2(16.0, 90.0);

/// Makes a window smaller that does not fit on its monitor, so that nothing of it is cut off.
fn fit_to_monitor(ctx: &eframe::egui::Context) {
    use eframe::egui::{ViewportCommand, vec2};
    let (monitor, inner) = ctx.input(|i| (i.viewport().monitor_size, i.viewport().inner_rect));
    let (Some(monitor), Some(inner)) = (monitor, inner) else { return };
    let room = (monitor - DESKTOP).max(vec2(LEAST_SIZE[0], LEAST_SIZE[1]));
    let size = inner.size().min(room);
    if size != inner.size() {
        ctx.send_viewport_cmd(ViewportCommand::InnerSize(size));
    }
}

/// Least size of a window in points.
const LEAST_SIZE: [f32; 2] = [640.0, 420.0];

/// Opens the window and returns when it is closed. A lost device opens it again with the same document.
///
/// Errors: [`ExploreError`].
pub fn run(options: &Options) -> Result<(), ExploreError> {
    let x11 = display()?;
    let mut options = options.clone();
    loop {
        let ending: Arc<Mutex<app::Ending>> = Arc::default();
        let life = open(&options, &ending, x11);
        let ending = ending.lock().map(|e| e.clone()).unwrap_or_default();
        let result = match life {
            Ok(result) => result,
            Err(Cut::Device) => {
                let reason = ending.lost.as_deref().unwrap_or("no reason given");
                let why = format!("the graphics device was lost while a frame was drawn ({reason})");
                return Err(cut_short(&why, &ending));
            }
            Err(Cut::Window) => {
                return Err(cut_short(
                    "the window is gone: another program or the X server took it away",
                    &ending,
                ));
            }
        };
        if let Some(reason) = ending.lost {
            let notice = format!("The graphics device was lost ({reason}) and opened again.");
            let tuning = options.tuning.clone();
            options = Options { notice: Some(notice), tuning, ..ending.latest.unwrap_or(options) };
            continue;
        }
        match (ending.failure, result) {
            (Some(why), _) => return Err(ExploreError::Failed(why)),
            (None, Ok(())) => return Ok(()),
            (None, Err(eframe::Error::Wgpu(why))) => {
                return Err(ExploreError::NoDriver { reason: why.to_string() });
            }
            (None, Err(eframe::Error::WinitEventLoop(_))) => {
                let name = std::env::var("DISPLAY").unwrap_or_default();
                let reason = format!("the one that DISPLAY={name} names does not answer");
                return Err(ExploreError::NoDisplay { reason });
            }
            (None, Err(why)) => return Err(ExploreError::Failed(why.to_string())),
        }
    }
}

/// What ended the window in the middle of a frame. What draws it panics then, which is no fault of the program, but the event
/// loop cannot be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The device was lost.
    Device,
    /// The window system no longer knows the window.
    Window,
}

/// Whether a panic comes from a window that is not there any more: winit 0.30 takes the X server's errors for its own.
fn is_of_window(info: &std::panic::PanicHookInfo<'_>) -> bool {
    info.location().is_some_and(|place| place.file().contains("winit") && place.file().contains("x11"))
}

/// One life of the window.
fn open(options: &Options, ending: &Arc<Mutex<app::Ending>>, x11: bool) -> Result<eframe::Result, Cut> {
    let (theirs, opened) = (Arc::clone(ending), options.clone());
    let is_lost = {
        let ending = Arc::clone(ending);
        move || {
            let device = ending.lock().ok().and_then(|e| e.device.clone());
            // The loss is told to whoever asks the device for news.
            let _ = device.map(|d| d.poll(wgpu::PollType::Poll));
            ending.lock().is_ok_and(|e| e.lost.is_some())
        }
    };
    let usual: Arc<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync> = std::panic::take_hook().into();
    let (told, lost) = (Arc::clone(&usual), is_lost.clone());
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    std::panic::set_hook(Box::new(move |info| {
        if is_of_window(info) {
            is_gone.store(true, Ordering::Release);
        } else if !lost() {
            told(info);
        }
    }));
    let life = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eframe::run_native(
            "wgattn",
            native_options(x11, options.screenshot.is_some()),
            Box::new(move |cc| Ok(Box::new(App::with_ending(cc, opened, theirs)?))),
        )
    }));
    std::panic::set_hook(Box::new(move |info| usual(info)));
    match life {
        Ok(result) => Ok(result),
        Err(_) if is_lost() => Err(Cut::Device),
        Err(_) if gone.load(Ordering::Acquire) => Err(Cut::Window),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Keeps what the user made, and says where.
fn cut_short(why: &str, ending: &app::Ending) -> ExploreError {
    let latest = ending.latest.clone().unwrap_or_default();
    let kept = session::Session {
        document: latest.document.unwrap_or_default(),
        source: latest.sources.first().map(|source| crate::source::anywhere(source)),
        open_views: latest.views,
        ..session::Session::default()
    };
    let saved = session::last_path().map(|path| kept.save_last(&path));
    let after = match saved {
        Some(Ok(())) => "the session is kept: wgattn explore --resume".to_string(),
        Some(Err(error)) => error.to_string(),
        None => "there is no place to keep the session".to_string(),
    };
    ExploreError::Failed(format!("{why}; {after}"))
}

/// Whether to insist on X11: Wayland is named but does not answer. A second try in one process is not possible.
#[cfg(target_os = "linux")]
fn display() -> Result<bool, ExploreError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let wayland = match (set("WAYLAND_DISPLAY"), set("WAYLAND_SOCKET"), set("XDG_RUNTIME_DIR")) {
        (_, Some(_), _) => true,
        (Some(name), None, folder) => {
            let socket = folder.map_or_else(|| name.clone().into(), |f| std::path::Path::new(&f).join(&name));
            std::os::unix::net::UnixStream::connect(socket).is_ok()
        }
        (None, None, _) => false,
    };
    match (wayland, set("DISPLAY").is_some()) {
        (false, false) => {
            let reason = "neither DISPLAY nor WAYLAND_DISPLAY leads to one".into();
            Err(ExploreError::NoDisplay { reason })
        }
        (wayland, _) => Ok(!wayland),
    }
}

#[cfg(not(target_os = "linux"))]
fn display() -> Result<bool, ExploreError> {
    Ok(false)
}

/// What the window asks of its device: all that the engine can use, and memory in small blocks. In large ones the room of a
/// map with all pairs of tokens, once needed, would never be given back: a small texture that outlives it holds the whole
/// block.
pub fn device_descriptor(adapter: &wgpu::Adapter) -> wgpu::DeviceDescriptor<'static> {
    wgpu::DeviceDescriptor {
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..crate::backend::wgpu::WgpuBackend::device_descriptor(adapter)
    }
}

fn native_options(x11: bool, photographed: bool) -> eframe::NativeOptions {
    let mut native = eframe::NativeOptions {
        viewport: eframe::egui::ViewportBuilder::default()
            .with_inner_size(if photographed { SCREENSHOT_SIZE } else { WINDOW_SIZE })
            .with_min_inner_size(LEAST_SIZE)
            .with_app_id("wgattn"),
        // Noise against bands in gradients: there are none here, and software drivers pay for it in every pixel.
        dithering: false,
        ..Default::default()
    };
    // A frame is shown as soon as it is drawn: frames are drawn only when something changed, and then without delay.
    native.wgpu_options.surface.present_mode = wgpu::PresentMode::AutoNoVsync;
    if let WgpuSetup::CreateNew(setup) = &mut native.wgpu_options.wgpu_setup {
        setup.device_descriptor = Arc::new(device_descriptor);
        // The order of the command line: discrete, integrated, virtual, software.
        setup.native_adapter_selector = Some(Arc::new(|adapters, surface| {
            let draws = |a: &&wgpu::Adapter| surface.is_none_or(|s| a.is_surface_supported(s));
            let kind = |a: &&wgpu::Adapter| crate::backend::wgpu::device_info(&a.get_info()).kind;
            let best = adapters.iter().filter(draws).min_by_key(kind);
            best.cloned().ok_or_else(|| "no adapter can draw to this window".to_string())
        }));
    }
    #[cfg(target_os = "linux")]
    if x11 {
        native.event_loop_builder = Some(Box::new(|builder| {
            use winit::platform::x11::EventLoopBuilderExtX11 as _;
            builder.with_x11();
        }));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = x11;
    native
}
