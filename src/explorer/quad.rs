//! The photograph with a layer over it, drawn in one pass that writes every pixel once and mixes nothing with what was there.
//!
//! egui draws images too, with one program for pictures and texts alike that blends each over the last. A driver without a
//! graphics card pays for that in every pixel of the window, in every frame.

use eframe::egui::{Rect, Shape};
use eframe::egui_wgpu::{Callback, CallbackResources, CallbackTrait, RenderState, ScreenDescriptor};

/// Where a layer lies over the photograph, and how strongly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    /// On screen, in points.
    pub(super) rect: Rect,
    /// 0…1.
    pub(super) opacity: f32,
}

/// What draws pictures into egui's pass.
///
/// The pass must have one sample per pixel and no depth, as eframe's has unless it is told otherwise.
pub(super) struct Quads {
    layout: wgpu::BindGroupLayout,
    alone: wgpu::RenderPipeline,
    layered: wgpu::RenderPipeline,
    linear: wgpu::Sampler,
    nearest: wgpu::Sampler,
    /// Corners of every picture of a frame; the first `used` are taken.
    corners: Vec<wgpu::Buffer>,
    used: usize,
}

/// A corner: clip space, place in the photograph and in the layer, opacity.
type Corner = [f32; 7];

/// Bytes of the corners of a picture.
const CORNERS: u64 = 4 * size_of::<Corner>() as u64;

impl Quads {
    /// Compiles the program for the window's format.
    pub(super) fn new(state: &RenderState) -> Self {
        let device = &state.device;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("pictures"),
            source: wgpu::ShaderSource::Wgsl(include_str!("quad.wgsl").into()),
        });
        let texture = wgpu::BindingType::Texture {
            sample_type: wgpu::TextureSampleType::Float { filterable: true },
            view_dimension: wgpu::TextureViewDimension::D2,
            multisampled: false,
        };
        let sampler = wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering);
        let entry = |(binding, ty): (u32, wgpu::BindingType)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::FRAGMENT,
            ty,
            count: None,
        };
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("pictures"),
            entries: &[(0, texture), (1, sampler), (2, texture), (3, sampler)].map(entry),
        });
        let pipelines = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("pictures"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = |fragment: &str| {
            let attributes =
                wgpu::vertex_attr_array![0 => Float32x2, 1 => Float32x2, 2 => Float32x2, 3 => Float32];
            device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
                label: Some(fragment),
                layout: Some(&pipelines),
                vertex: wgpu::VertexState {
                    module: &module,
                    entry_point: Some("corner"),
                    buffers: &[Some(wgpu::VertexBufferLayout {
                        array_stride: size_of::<Corner>() as u64,
                        step_mode: wgpu::VertexStepMode::Vertex,
                        attributes: &attributes,
                    })],
                    compilation_options: wgpu::PipelineCompilationOptions::default(),
                },
                primitive: wgpu::PrimitiveState {
                    topology: wgpu::PrimitiveTopology::TriangleStrip,
                    ..wgpu::PrimitiveState::default()
                },
                depth_stencil: None,
                multisample: wgpu::MultisampleState::default(),
                fragment: Some(wgpu::FragmentState {
                    module: &module,
                    entry_point: Some(fragment),
                    targets: &[Some(state.target_format.into())],
                    compilation_options: wgpu::PipelineCompilationOptions::default(),
                }),
                multiview_mask: None,
                cache: None,
            })
        };
        let [alone, layered] = match state.target_format.is_srgb() {
            false => ["photo_alone", "photo_and_layer"],
            true => ["photo_alone_as_light", "photo_and_layer_as_light"],
        };
        let filtered = |filter| {
            device.create_sampler(&wgpu::SamplerDescriptor {
                mag_filter: filter,
                min_filter: filter,
                lod_max_clamp: 0.0,
                ..wgpu::SamplerDescriptor::default()
            })
        };
        Self {
            alone: pipeline(alone),
            layered: pipeline(layered),
            linear: filtered(wgpu::FilterMode::Linear),
            nearest: filtered(wgpu::FilterMode::Nearest),
            layout,
            corners: Vec::new(),
            used: 0,
        }
    }

    /// A photograph, and a layer that is drawn smooth or in flat squares.
    pub(super) fn textures(
        &self,
        device: &wgpu::Device,
        photo: &wgpu::Texture,
        layer: Option<(&wgpu::Texture, bool)>,
    ) -> wgpu::BindGroup {
        let view = |texture: &wgpu::Texture| texture.create_view(&wgpu::TextureViewDescriptor::default());
        let smooth = layer.is_none_or(|(_, smooth)| smooth);
        let (photo_view, layer_view) = (view(photo), view(layer.map_or(photo, |(texture, _)| texture)));
        let resources = [
            wgpu::BindingResource::TextureView(&photo_view),
            wgpu::BindingResource::Sampler(&self.linear),
            wgpu::BindingResource::TextureView(&layer_view),
            wgpu::BindingResource::Sampler(if smooth { &self.linear } else { &self.nearest }),
        ];
        let mut binding = 0..;
        let entries = resources
            .map(|resource| wgpu::BindGroupEntry { binding: binding.next().unwrap_or_default(), resource });
        device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("picture"),
            layout: &self.layout,
            entries: &entries,
        })
    }

    /// Draws what `textures` holds: the photograph over `rect`, in points, as far as it lies in `clip`.
    pub(super) fn draw(
        &mut self,
        device: &wgpu::Device,
        textures: wgpu::BindGroup,
        (rect, clip): (Rect, Rect),
        over: Option<Over>,
    ) -> Shape {
        let seen = rect.intersect(clip);
        if !seen.is_positive() {
            return Shape::Noop;
        }
        if self.corners.len() <= self.used {
            self.corners.push(device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("corners of a picture"),
                size: CORNERS,
                usage: wgpu::BufferUsages::VERTEX | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            }));
        }
        let Some(corners) = self.corners.get(self.used).cloned() else { return Shape::Noop };
        self.used += 1;
        let pipeline = if over.is_some() { &self.layered } else { &self.alone };
        let quad = Quad { pipeline: pipeline.clone(), textures, corners, seen, rect, over };
        Shape::Callback(Callback::new_paint_callback(seen, quad))
    }

    /// Lets the next frame take the corners again.
    pub(super) fn end_frame(&mut self) {
        self.used = 0;
    }
}

/// One picture in one frame.
struct Quad {
    pipeline: wgpu::RenderPipeline,
    textures: wgpu::BindGroup,
    corners: wgpu::Buffer,
    seen: Rect,
    rect: Rect,
    over: Option<Over>,
}

impl CallbackTrait for Quad {
    fn prepare(
        &self,
        _: &wgpu::Device,
        queue: &wgpu::Queue,
        screen: &ScreenDescriptor,
        _: &mut wgpu::CommandEncoder,
        _: &mut CallbackResources,
    ) -> Vec<wgpu::CommandBuffer> {
        let [width, height] = screen.size_in_pixels.map(|side| side as f32 / screen.pixels_per_point);
        let over = self.over.unwrap_or(Over { rect: self.rect, opacity: 0.0 });
        let place = |rect: Rect, at: eframe::egui::Pos2| {
            let along = (at - rect.min) / rect.size();
            [along.x, along.y]
        };
        let corner = |at: eframe::egui::Pos2| -> Corner {
            let ([u, v], [s, t]) = (place(self.rect, at), place(over.rect, at));
            [2.0 * at.x / width - 1.0, 1.0 - 2.0 * at.y / height, u, v, s, t, over.opacity]
        };
        let seen = self.seen;
        let corners: [Corner; 4] =
            [seen.left_top(), seen.right_top(), seen.left_bottom(), seen.right_bottom()].map(corner);
        queue.write_buffer(&self.corners, 0, bytemuck::cast_slice(&corners));
        Vec::new()
    }

    fn paint(
        &self,
        info: eframe::egui::PaintCallbackInfo,
        pass: &mut wgpu::RenderPass<'static>,
        _: &CallbackResources,
    ) {
        // Whole pixels of the picture's own viewport would shift it against what egui draws over it.
        let [width, height] = info.screen_size_px.map(|side| side as f32);
        pass.set_viewport(0.0, 0.0, width, height, 0.0, 1.0);
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.textures, &[]);
        pass.set_vertex_buffer(0, self.corners.slice(..));
        pass.draw(0..4, 0..1);
    }
}
