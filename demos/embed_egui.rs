//! The engine inside somebody else's egui app: a paint callback encodes the map into egui's own encoder, egui draws it.
//! Click or drag on either picture to choose the query; the slider is the bandwidth λ.
//!
//! `cargo run --features demo-egui --example embed_egui [IMAGE] [--frames N] [--screenshot FILE]`

use eframe::egui;
use eframe::egui_wgpu::{Callback, CallbackResources, CallbackTrait, ScreenDescriptor, WgpuSetup};
use live_map::{AnyError, LiveMap, Options, START_LAMBDA, load_photo, map_texture, report};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use wgattn::backend::wgpu::WgpuBackend;
use wgattn::wgpu;

mod live_map;

fn main() -> ExitCode {
    report(run())
}

fn run() -> Result<(), AnyError> {
    let options = Options::from_args()?;
    let mut native = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default().with_inner_size([1100.0, 440.0]),
        ..Default::default()
    };
    // eframe's own device suits the engine everywhere but on GL, where it asks for a device without compute shaders.
    if let WgpuSetup::CreateNew(setup) = &mut native.wgpu_options.wgpu_setup {
        setup.device_descriptor = Arc::new(|adapter| wgpu::DeviceDescriptor {
            required_limits: wgpu::Limits::default().or_worse_values_from(&adapter.limits()),
            ..Default::default()
        });
    }
    eframe::run_native("wgattn in egui", native, Box::new(|cc| Ok(Box::new(App::new(cc, options)?))))?;
    Ok(())
}

/// What the callback needs, kept where egui keeps the resources of callbacks.
struct Shared {
    map: LiveMap,
    error: Arc<Mutex<Option<String>>>,
}

/// One frame's wishes.
struct Encode {
    at: [f32; 2],
    lambda: f32,
}

impl CallbackTrait for Encode {
    fn prepare(
        &self,
        _: &wgpu::Device,
        _: &wgpu::Queue,
        _: &ScreenDescriptor,
        encoder: &mut wgpu::CommandEncoder,
        resources: &mut CallbackResources,
    ) -> Vec<wgpu::CommandBuffer> {
        if let Some(shared) = resources.get_mut::<Shared>() {
            let error = shared.map.encode(encoder, self.at, self.lambda).err();
            if let Ok(mut shown) = shared.error.lock() {
                *shown = error.map(|e| e.to_string());
            }
        }
        Vec::new()
    }

    /// Nothing: egui itself draws the texture.
    fn paint(&self, _: egui::PaintCallbackInfo, _: &mut wgpu::RenderPass<'static>, _: &CallbackResources) {}
}

struct App {
    options: Options,
    photo: egui::load::SizedTexture,
    map: egui::load::SizedTexture,
    facts: String,
    error: Arc<Mutex<Option<String>>>,
    at: [f32; 2],
    lambda: f32,
    frame: u32,
}

impl App {
    fn new(cc: &eframe::CreationContext<'_>, options: Options) -> Result<Self, AnyError> {
        let state = cc.wgpu_render_state.as_ref().ok_or("this build of eframe does not draw with wgpu")?;
        let photo = load_photo(&state.device, &state.queue, &options.image)?;
        let picture = map_texture(&state.device, &photo);
        let backend = WgpuBackend::new(state.device.clone(), state.queue.clone())?;
        let map = LiveMap::new(&backend, &photo, &picture)?;
        let facts = format!("{} tokens on {}", map.tokens(), state.adapter.get_info().name);
        let size = egui::vec2(photo.width() as f32, photo.height() as f32);
        let error = Arc::new(Mutex::new(None));
        let mut renderer = state.renderer.write();
        let mut register = |texture: &wgpu::Texture| {
            let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
            let id = renderer.register_native_texture(&state.device, &view, wgpu::FilterMode::Linear);
            egui::load::SizedTexture::new(id, size)
        };
        let (photo, shown) = (register(&photo), register(&picture));
        renderer.callback_resources.insert(Shared { map, error: Arc::clone(&error) });
        Ok(Self { options, photo, map: shown, facts, error, at: [0.5, 0.5], lambda: START_LAMBDA, frame: 0 })
    }

    /// One of the two pictures, with the query ringed; a click or drag moves it.
    fn picture(&mut self, ui: &mut egui::Ui, texture: egui::load::SizedTexture, width: f32) {
        let image = egui::Image::new(texture).max_width(width).sense(egui::Sense::click_and_drag());
        let response = ui.add(image);
        let rect = response.rect;
        if let Some(pointer) = response.interact_pointer_pos() {
            let at = (pointer - rect.min) / rect.size();
            self.at = [at.x.clamp(0.0, 1.0), at.y.clamp(0.0, 1.0)];
        }
        let centre = rect.min + egui::vec2(self.at[0], self.at[1]) * rect.size();
        ui.painter().circle_stroke(centre, 8.0, (4.0, egui::Color32::BLACK));
        ui.painter().circle_stroke(centre, 8.0, (2.0, egui::Color32::WHITE));
    }

    /// Saves and closes after the frames that were asked for.
    fn finish(&mut self, ctx: &egui::Context) {
        let Some(frames) = self.options.frames else { return };
        ctx.request_repaint();
        self.frame += 1;
        if self.frame != frames {
            return;
        }
        let Some(path) = self.options.screenshot.clone() else {
            return ctx.send_viewport_cmd(egui::ViewportCommand::Close);
        };
        let closing = ctx.clone();
        ctx.request_screenshot(move |picture| {
            let pixels = picture.pixels.iter().flat_map(|p| [p.r(), p.g(), p.b()]).collect();
            let [width, height] = picture.size.map(|side| side as u32);
            match image::RgbImage::from_raw(width, height, pixels).map(|p| p.save(&path)) {
                Some(Ok(())) => println!("saved {path}"),
                Some(Err(error)) => eprintln!("{path}: {error}"),
                None => eprintln!("{path}: a row is missing"),
            }
            closing.send_viewport_cmd_to(egui::ViewportId::ROOT, egui::ViewportCommand::Close);
        });
    }
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        let ctx = ui.ctx().clone();
        egui::CentralPanel::default().show(ui, |ui| {
            ui.horizontal(|ui| {
                ui.label("Bandwidth λ");
                ui.add(egui::Slider::new(&mut self.lambda, 0.5..=50.0).logarithmic(true));
                ui.label(format!("{}. Click a picture to choose the query.", self.facts));
            });
            let width = (ui.available_width() - ui.spacing().item_spacing.x) / 2.0;
            ui.horizontal(|ui| {
                self.picture(ui, self.photo, width);
                self.picture(ui, self.map, width);
            });
            let encode = Encode { at: self.at, lambda: self.lambda };
            ui.painter().add(Callback::new_paint_callback(ui.max_rect(), encode));
            if let Some(error) = self.error.lock().ok().and_then(|e| e.clone()) {
                ui.colored_label(ui.visuals().error_fg_color, error);
            }
        });
        self.finish(&ctx);
    }
}
