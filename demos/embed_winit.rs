//! A window that owns its device: every frame it lets the engine encode the attention map of a moving query into the
//! frame's own encoder, then draws photograph and map with its own render pipeline and submits once.
//!
//! `cargo run --features demo --example embed_winit [IMAGE] [--frames N] [--screenshot FILE]`

use live_map::{AnyError, LiveMap, Options, START_LAMBDA, load_photo, map_texture, report};
use std::process::ExitCode;
use std::sync::Arc;
use wgattn::backend::wgpu::WgpuBackend;
use wgattn::wgpu;
use winit::application::ApplicationHandler;
use winit::dpi::LogicalSize;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, ControlFlow, EventLoop, OwnedDisplayHandle};
use winit::window::{Window, WindowId};

mod live_map;

/// Photograph on the left, map on the right, the query ringed on both.
const SHADER: &str = "
@group(0) @binding(0) var photo: texture_2d<f32>;
@group(0) @binding(1) var map: texture_2d<f32>;
@group(0) @binding(2) var smooth_sampler: sampler;
// Query (0…1 across and down), then width and height of one half in pixels.
@group(0) @binding(3) var<uniform> frame: vec4f;
// Whether the target turns linear light into display bytes; both pictures are display bytes already.
override srgb_target: bool = false;

struct Corner { @builtin(position) position: vec4f, @location(0) uv: vec2f }

@vertex fn corner(@builtin(vertex_index) i: u32) -> Corner {
    let uv = vec2f(f32(i & 1u), f32(i >> 1u)) * 2.0;
    return Corner(vec4f(uv.x * 2.0 - 1.0, 1.0 - uv.y * 2.0, 0.0, 1.0), uv);
}

@fragment fn pixel(c: Corner) -> @location(0) vec4f {
    let uv = vec2f(fract(c.uv.x * 2.0), c.uv.y);
    let shown = select(textureSampleLevel(map, smooth_sampler, uv, 0.0), textureSampleLevel(photo, smooth_sampler, uv, 0.0), c.uv.x < 0.5);
    let far = length((uv - frame.xy) * frame.zw);
    let ring = 1.0 - smoothstep(1.0, 2.5, abs(far - 9.0));
    let rim = 1.0 - smoothstep(2.5, 4.0, abs(far - 9.0));
    let colour = mix(mix(shown.rgb, vec3f(0.0), rim), vec3f(1.0), ring);
    if srgb_target {
        let low = colour / 12.92;
        return vec4f(select(pow((colour + 0.055) / 1.055, vec3f(2.4)), low, colour <= vec3f(0.04045)), 1.0);
    }
    return vec4f(colour, 1.0);
}
";

fn main() -> ExitCode {
    report(run())
}

fn run() -> Result<(), AnyError> {
    let options = Options::from_args()?;
    let event_loop = EventLoop::new()?;
    event_loop.set_control_flow(ControlFlow::Poll);
    let display = event_loop.owned_display_handle();
    let mut app = App { options, display, host: None, failure: None };
    event_loop.run_app(&mut app)?;
    app.failure.map_or(Ok(()), Err)
}

struct App {
    options: Options,
    display: OwnedDisplayHandle,
    host: Option<Host>,
    failure: Option<AnyError>,
}

impl App {
    fn stop_on_error<T>(&mut self, event_loop: &ActiveEventLoop, result: Result<T, AnyError>) -> Option<T> {
        result
            .map_err(|error| {
                self.failure = Some(error);
                event_loop.exit();
            })
            .ok()
    }
}

impl ApplicationHandler for App {
    fn resumed(&mut self, event_loop: &ActiveEventLoop) {
        let made = Host::new(event_loop, self.display.clone(), &self.options);
        self.host = self.stop_on_error(event_loop, made);
    }

    fn window_event(&mut self, event_loop: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        let Some(host) = &mut self.host else { return };
        match event {
            WindowEvent::CloseRequested => event_loop.exit(),
            WindowEvent::Resized(size) => host.resize(size.width, size.height),
            WindowEvent::RedrawRequested => {
                let drawn = host.frame(&self.options);
                if self.stop_on_error(event_loop, drawn).is_some_and(|last| last) {
                    event_loop.exit();
                }
            }
            _ => {}
        }
    }

    fn about_to_wait(&mut self, _: &ActiveEventLoop) {
        if let Some(host) = &self.host {
            host.window.request_redraw();
        }
    }
}

/// What the host owns; the engine gets the device, the queue, and a place in the encoder.
struct Host {
    window: Arc<Window>,
    surface: wgpu::Surface<'static>,
    surface_config: wgpu::SurfaceConfiguration,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::RenderPipeline,
    bind_group: wgpu::BindGroup,
    uniform: wgpu::Buffer,
    map: LiveMap,
    frame: u32,
}

impl Host {
    fn new(
        event_loop: &ActiveEventLoop,
        display: OwnedDisplayHandle,
        options: &Options,
    ) -> Result<Self, AnyError> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_with_display_handle_from_env(
            Box::new(display),
        ));
        let attributes = Window::default_attributes().with_title("wgattn in a window of its own device");
        let window = Arc::new(event_loop.create_window(attributes)?);
        let surface = instance.create_surface(Arc::clone(&window))?;
        let wanted = wgpu::RequestAdapterOptions { compatible_surface: Some(&surface), ..Default::default() };
        let adapter = pollster::block_on(instance.request_adapter(&wanted))?;
        // No features and default limits are all the engine needs; an older GL driver has less, and that is tried too.
        let limits = wgpu::Limits::default().or_worse_values_from(&adapter.limits());
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("host"),
            required_features: wgpu::Features::empty(),
            required_limits: limits,
            ..Default::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))?;

        let photo = load_photo(&device, &queue, &options.image)?;
        let picture = map_texture(&device, &photo);
        let _ = window.request_inner_size(LogicalSize::new(2 * photo.width(), photo.height()));

        let backend = WgpuBackend::new(device.clone(), queue.clone())?;
        let map = LiveMap::new(&backend, &photo, &picture)?;
        #[expect(clippy::disallowed_methods, reason = "this window is the host and owns the device")]
        device.set_device_lost_callback(move |reason, message| {
            backend.notify_device_lost(&format!("{reason:?}: {message}"));
        });

        let (width, height) = (2 * photo.width(), photo.height());
        let mut surface_config = surface
            .get_default_config(&adapter, width, height)
            .ok_or("the adapter cannot draw to this window")?;
        let formats = surface.get_capabilities(&adapter).formats;
        surface_config.format =
            formats.iter().copied().find(|f| !f.is_srgb()).unwrap_or(surface_config.format);
        surface.configure(&device, &surface_config);

        let pipeline = render_pipeline(&device, surface_config.format);
        let uniform = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("frame"),
            size: 16,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let sampler = device.create_sampler(&wgpu::SamplerDescriptor {
            mag_filter: wgpu::FilterMode::Linear,
            min_filter: wgpu::FilterMode::Linear,
            ..Default::default()
        });
        let views = [&photo, &picture].map(|t| t.create_view(&wgpu::TextureViewDescriptor::default()));
        let entry = |binding, resource| wgpu::BindGroupEntry { binding, resource };
        let bind_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("photograph and map"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                entry(0, wgpu::BindingResource::TextureView(&views[0])),
                entry(1, wgpu::BindingResource::TextureView(&views[1])),
                entry(2, wgpu::BindingResource::Sampler(&sampler)),
                entry(3, uniform.as_entire_binding()),
            ],
        });
        println!("{} tokens on {} ({})", map.tokens(), adapter.get_info().name, adapter.get_info().backend);
        Ok(Self {
            window,
            surface,
            surface_config,
            device,
            queue,
            pipeline,
            bind_group,
            uniform,
            map,
            frame: 0,
        })
    }

    fn resize(&mut self, width: u32, height: u32) {
        let most = self.device.limits().max_texture_dimension_2d;
        (self.surface_config.width, self.surface_config.height) =
            (width.clamp(1, most), height.clamp(1, most));
        self.surface.configure(&self.device, &self.surface_config);
    }

    /// One frame: our map, then the host's drawing, in one encoder and one submission. True after the last frame.
    fn frame(&mut self, options: &Options) -> Result<bool, AnyError> {
        use wgpu::CurrentSurfaceTexture as Current;
        let target = match self.surface.get_current_texture() {
            Current::Success(target) | Current::Suboptimal(target) => target,
            Current::Outdated | Current::Lost => {
                self.surface.configure(&self.device, &self.surface_config);
                return Ok(false);
            }
            Current::Timeout | Current::Occluded => return Ok(false),
            Current::Validation => return Err("the window system gave no picture to draw to".into()),
        };
        let turn = self.frame as f32 * 0.03;
        let at = [0.5 + 0.35 * turn.cos(), 0.5 + 0.35 * (1.7 * turn).sin()];
        let size = [self.surface_config.width as f32 * 0.5, self.surface_config.height as f32];
        let words = [at[0], at[1], size[0], size[1]].map(f32::to_le_bytes);
        self.queue.write_buffer(&self.uniform, 0, words.as_flattened());

        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.map.encode(&mut encoder, at, START_LAMBDA)?;
        self.draw(&mut encoder, &target.texture);
        self.queue.submit([encoder.finish()]);
        self.window.pre_present_notify();
        self.queue.present(target);

        self.frame += 1;
        let last = options.frames.is_some_and(|frames| self.frame >= frames);
        if let Some(path) = options.screenshot.as_ref().filter(|_| last) {
            self.screenshot(path)?;
        }
        Ok(last)
    }

    fn draw(&self, encoder: &mut wgpu::CommandEncoder, target: &wgpu::Texture) {
        let view = target.create_view(&wgpu::TextureViewDescriptor::default());
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label: Some("host's drawing"),
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &view,
                depth_slice: None,
                resolve_target: None,
                ops: wgpu::Operations {
                    load: wgpu::LoadOp::Clear(wgpu::Color::BLACK),
                    store: wgpu::StoreOp::Store,
                },
            })],
            ..Default::default()
        });
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bind_group, &[]);
        pass.draw(0..3, 0..1);
    }

    /// Draws the frame once more into a texture that can be copied, and saves it.
    fn screenshot(&self, path: &str) -> Result<(), AnyError> {
        let (width, height, format) =
            (self.surface_config.width, self.surface_config.height, self.surface_config.format);
        let size = wgpu::Extent3d { width, height, depth_or_array_layers: 1 };
        let target = self.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("screenshot"),
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        });
        let pitch = (4 * width).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let copy = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("screenshot"),
            size: u64::from(pitch) * u64::from(height),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.draw(&mut encoder, &target);
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(pitch), rows_per_image: None };
        encoder.copy_texture_to_buffer(
            target.as_image_copy(),
            wgpu::TexelCopyBufferInfo { buffer: &copy, layout },
            size,
        );
        self.queue.submit([encoder.finish()]);
        copy.slice(..).map_async(wgpu::MapMode::Read, |_| {});
        self.device.poll(wgpu::PollType::wait_indefinitely())?;

        let bytes = copy.slice(..).get_mapped_range()?;
        let blue_first = format.remove_srgb_suffix() == wgpu::TextureFormat::Bgra8Unorm;
        let rgb = |p: &[u8]| if blue_first { [p[2], p[1], p[0]] } else { [p[0], p[1], p[2]] };
        let row = |line: &[u8]| line[..4 * width as usize].chunks_exact(4).flat_map(rgb).collect::<Vec<u8>>();
        let pixels: Vec<u8> = bytes.chunks(pitch as usize).flat_map(row).collect();
        image::RgbImage::from_raw(width, height, pixels)
            .ok_or("a row is missing")?
            .save(path)
            .map_err(|e| format!("{path}: {e}"))?;
        println!("saved {path}");
        Ok(())
    }
}

fn render_pipeline(device: &wgpu::Device, format: wgpu::TextureFormat) -> wgpu::RenderPipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("host's drawing"),
        source: wgpu::ShaderSource::Wgsl(SHADER.into()),
    });
    let constants = [("srgb_target", f64::from(u8::from(format.is_srgb())))];
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some("host's drawing"),
        layout: None,
        vertex: wgpu::VertexState {
            module: &module,
            entry_point: Some("corner"),
            compilation_options: Default::default(),
            buffers: &[],
        },
        fragment: Some(wgpu::FragmentState {
            module: &module,
            entry_point: Some("pixel"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                ..Default::default()
            },
            targets: &[Some(format.into())],
        }),
        primitive: Default::default(),
        depth_stencil: None,
        multisample: Default::default(),
        multiview_mask: None,
        cache: None,
    })
}
