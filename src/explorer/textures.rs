//! The engine's textures and the photograph, as egui draws them: registered once, updated in place.

use super::quad::{Over, Quads};
use super::snapshot::Layer;
use crate::vision::image::Photo;
use eframe::egui::{Painter, Rect, TextureId};
use eframe::egui_wgpu::RenderState;
use glam::UVec2;
use std::collections::HashMap;

/// Longest side of the photograph as it is drawn; larger ones are reduced for the screen, never for the engine.
const LONGEST_SIDE: u32 = 8192;

/// A photograph on the window's device.
#[derive(Debug)]
pub struct Picture {
    /// As egui names it.
    pub id: TextureId,
    /// Pixels of the photograph itself.
    pub size: UVec2,
    /// Photograph pixels per texel, 1 unless it had to be reduced.
    pub reduction: f64,
    texture: wgpu::Texture,
}

/// A photograph, and a layer over it: its texture, and whether it is drawn smooth.
type Pair = (wgpu::Texture, Option<(wgpu::Texture, bool)>);

/// Everything that is registered with egui's renderer.
pub struct Textures {
    state: RenderState,
    photo: Option<Picture>,
    layers: HashMap<(wgpu::Texture, bool), (TextureId, u64)>,
    quads: Quads,
    /// The photograph with each layer that was drawn over it, and when it was drawn last.
    pairs: HashMap<Pair, (wgpu::BindGroup, u64)>,
    frame: u64,
}

impl Textures {
    /// Nothing yet.
    pub fn new(state: RenderState) -> Self {
        let quads = Quads::new(&state);
        Self { state, photo: None, layers: HashMap::new(), quads, pairs: HashMap::new(), frame: 0 }
    }

    /// egui's renderer and its device.
    pub fn state(&self) -> &RenderState {
        &self.state
    }

    /// The photograph.
    pub fn photo(&self) -> Option<&Picture> {
        self.photo.as_ref()
    }

    /// Uploads the photograph; one of the same size goes into the same texture.
    pub fn set_photo(&mut self, photo: &Photo) {
        let side = LONGEST_SIDE.min(self.state.device.limits().max_texture_dimension_2d);
        let display = photo.display(side);
        let (picture, reduction) = (&display.picture, display.reduction());
        let (width, height) = picture.dimensions();
        let same = |p: &Picture| p.texture.width() == width && p.texture.height() == height;
        let kept = self.photo.take();
        let mut shown = match kept {
            Some(shown) if same(&shown) => shown,
            old => {
                // They would hold a photograph that is drawn no more.
                self.pairs.clear();
                let mut renderer = self.state.renderer.write();
                if let Some(old) = old {
                    renderer.free_texture(&old.id);
                }
                let texture = pixels(&self.state.device, "photograph", UVec2::new(width, height));
                let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
                let id =
                    renderer.register_native_texture(&self.state.device, &view, wgpu::FilterMode::Linear);
                Picture { id, size: UVec2::ZERO, reduction, texture }
            }
        };
        shown.size = photo.size();
        shown.reduction = reduction;
        let bytes: Vec<u8> = picture.pixels().flat_map(|p| [p.0[0], p.0[1], p.0[2], 255]).collect();
        write(&self.state.queue, &shown.texture, &bytes);
        self.photo = Some(shown);
    }

    /// A layer's texture, drawn smooth or in flat squares.
    pub fn layer(&mut self, layer: &Layer, smooth: bool) -> TextureId {
        let frame = self.frame;
        let key = (layer.texture.clone(), smooth);
        let entry = self.layers.entry(key).or_insert_with(|| {
            let view = layer.texture.create_view(&wgpu::TextureViewDescriptor::default());
            let filter = if smooth { wgpu::FilterMode::Linear } else { wgpu::FilterMode::Nearest };
            (self.state.renderer.write().register_native_texture(&self.state.device, &view, filter), frame)
        });
        entry.1 = frame;
        entry.0
    }

    /// Draws the photograph over `rect`, in points, and over it a layer: where that lies, its opacity (0…1), and whether it is
    /// drawn smooth or in flat squares. Every pixel is written once: it is much cheaper than two images.
    pub fn draw(&mut self, painter: &Painter, rect: Rect, layer: Option<(&Layer, Rect, f32, bool)>) {
        let Some(photo) = &self.photo else { return };
        let (device, frame) = (&self.state.device, self.frame);
        let over = layer.map(|(_, rect, opacity, _)| Over { rect, opacity });
        let key = layer.map(|(layer, _, _, smooth)| (layer.texture.clone(), smooth));
        let pair = self.pairs.entry((photo.texture.clone(), key));
        let entry = pair.or_insert_with_key(|(photo, layer)| {
            let layer = layer.as_ref().map(|(texture, smooth)| (texture, *smooth));
            (self.quads.textures(device, photo, layer), frame)
        });
        entry.1 = frame;
        painter.add(self.quads.draw(device, entry.0.clone(), (rect, painter.clip_rect()), over));
    }

    /// Ends a frame: what was not drawn for a while is given back.
    pub fn end_frame(&mut self) {
        self.frame += 1;
        let (frame, state) = (self.frame, &self.state);
        self.quads.end_frame();
        self.pairs.retain(|_, (_, used)| frame - *used < 120);
        self.layers.retain(|_, (id, used)| {
            let keep = frame - *used < 120;
            if !keep {
                state.renderer.write().free_texture(id);
            }
            keep
        });
    }
}

/// A texture for pixels that egui draws and the engine or the host writes.
pub(super) fn pixels(device: &wgpu::Device, label: &str, size: UVec2) -> wgpu::Texture {
    device.create_texture(&wgpu::TextureDescriptor {
        label: Some(label),
        size: wgpu::Extent3d { width: size.x.max(1), height: size.y.max(1), depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::TEXTURE_BINDING
            | wgpu::TextureUsages::STORAGE_BINDING
            | wgpu::TextureUsages::COPY_DST
            | wgpu::TextureUsages::COPY_SRC,
        view_formats: &[],
    })
}

/// Writes display bytes into a texture.
pub(super) fn write(queue: &wgpu::Queue, texture: &wgpu::Texture, bytes: &[u8]) {
    let layout = wgpu::TexelCopyBufferLayout {
        offset: 0,
        bytes_per_row: Some(4 * texture.width()),
        rows_per_image: None,
    };
    queue.write_texture(texture.as_image_copy(), bytes, layout, texture.size());
}

impl std::fmt::Debug for Textures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Textures").field("photo", &self.photo).field("layers", &self.layers.len()).finish()
    }
}

impl Drop for Textures {
    fn drop(&mut self) {
        let mut renderer = self.state.renderer.write();
        let photo = self.photo.iter().map(|p| &p.id);
        photo.chain(self.layers.values().map(|(id, _)| id)).for_each(|id| renderer.free_texture(id));
    }
}
