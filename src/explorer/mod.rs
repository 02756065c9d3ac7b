//! The desktop explorer: attention of a clicked pixel over live pictures, masks painted by hand, and why it is so.
//!
//! The window and the engine share one device. The engine works on a thread of its own ([`engine`]): the newest request
//! wins, work is cut into short submissions so that frames pass between them, and pictures stay on the device. What the
//! window shows is a list of [`views`]; what the user made is a [`document`], which undo and sessions go through.

pub mod actions;
pub mod analysis;
mod app;
pub mod arrays_source;
pub mod canvas;
pub mod command;
pub mod document;
pub mod engine;
pub mod export;
pub mod fonts;
pub mod mask;
pub mod panel;
pub mod probe;
mod quad;
pub mod session;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod textures;
pub mod theme;
pub mod tour;
pub mod views;
pub mod widgets;

pub use app::{App, FrameHook, Options};

use eframe::egui_wgpu::WgpuSetup;
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

/// Size of a new window in points.
pub const WINDOW_SIZE: [f32; 2] = [1280.0, 800.0];

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
        let Some(result) = life else { return Err(lost_for_good(&ending)) };
        if let Some(reason) = ending.lost {
            let notice = format!("The graphics device was lost ({reason}) and opened again.");
            options = Options { notice: Some(notice), ..ending.latest.unwrap_or(options) };
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

/// One life of the window; `None` where the device was lost while a frame was being drawn. What draws it panics then, which
/// is no fault of the program, but the event loop cannot be used again.
fn open(options: &Options, ending: &Arc<Mutex<app::Ending>>, x11: bool) -> Option<eframe::Result> {
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
    std::panic::set_hook(Box::new(move |info| {
        if !lost() {
            told(info);
        }
    }));
    let life = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eframe::run_native(
            "wgattn",
            native_options(x11),
            Box::new(move |cc| Ok(Box::new(App::with_ending(cc, opened, theirs)?))),
        )
    }));
    std::panic::set_hook(Box::new(move |info| usual(info)));
    match life {
        Ok(result) => Some(result),
        Err(_) if is_lost() => None,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Keeps what the user made, and says where.
fn lost_for_good(ending: &app::Ending) -> ExploreError {
    let latest = ending.latest.clone().unwrap_or_default();
    let kept = session::Session {
        document: latest.document.unwrap_or_default(),
        source: latest.sources.first().cloned(),
        open_views: latest.views,
        ..session::Session::default()
    };
    let saved = session::last_path().map(|path| kept.save_last(&path));
    let after = match saved {
        Some(Ok(())) => "the session is kept: wgattn explore --resume".to_string(),
        Some(Err(error)) => error.to_string(),
        None => "there is no place to keep the session".to_string(),
    };
    ExploreError::Failed(format!(
        "the graphics device was lost while a frame was drawn ({}); {after}",
        ending.lost.as_deref().unwrap_or("no reason given")
    ))
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

fn native_options(x11: bool) -> eframe::NativeOptions {
    let mut native = eframe::NativeOptions {
        viewport: eframe::egui::ViewportBuilder::default()
            .with_inner_size(WINDOW_SIZE)
            .with_min_inner_size([640.0, 420.0])
            .with_app_id("wgattn"),
        // Noise against bands in gradients: there are none here, and software drivers pay for it in every pixel.
        dithering: false,
        ..Default::default()
    };
    // A frame is shown as soon as it is drawn: frames are drawn only when something changed, and then without delay.
    native.wgpu_options.surface.present_mode = wgpu::PresentMode::AutoNoVsync;
    if let WgpuSetup::CreateNew(setup) = &mut native.wgpu_options.wgpu_setup {
        setup.device_descriptor = Arc::new(crate::backend::wgpu::WgpuBackend::device_descriptor);
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
