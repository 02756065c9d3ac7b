//! Getting numbers back: a ticket that is filled when the host polls its device, and the waiting form beside it.

use super::Core;
use crate::error::Result;
use crate::tensor::{DType, HostTensor, Shape};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long after its commands have run a copy may still be on its way; see [`Ticket::wait`].
const ARRIVAL: Duration = Duration::from_secs(5);

const PENDING: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;
const TAKEN: u8 = 3;

/// A copy of a tensor on its way to the host. Poll the device as usual and ask [`Ticket::try_take`].
#[derive(Debug)]
pub struct Ticket {
    core: Arc<Core>,
    buffer: ::wgpu::Buffer,
    shape: Shape,
    dtype: DType,
    state: Arc<AtomicU8>,
    failure: Arc<Mutex<String>>,
}

/// Where a copy starts.
pub(super) enum Origin<'a> {
    Buffer(&'a ::wgpu::Buffer, u64),
    Texture(&'a ::wgpu::Texture),
}

/// Bytes of a row of pixels in a buffer copy: wgpu wants multiples of 256.
pub(super) fn row_pitch(width: u32) -> u32 {
    (width * 4).next_multiple_of(::wgpu::COPY_BYTES_PER_ROW_ALIGNMENT)
}

impl Ticket {
    /// Encodes the copy; it is mapped when the encoder's commands are submitted.
    pub(super) fn encode(
        core: &Arc<Core>,
        encoder: &mut ::wgpu::CommandEncoder,
        origin: Origin<'_>,
        shape: Shape,
        dtype: DType,
    ) -> Result<Self> {
        let bytes = match origin {
            Origin::Buffer(..) => (shape.len() * dtype.bytes()).next_multiple_of(4).max(4),
            Origin::Texture(texture) => u64::from(row_pitch(texture.width())) * u64::from(texture.height()),
        };
        let buffer = core.checked("readback", || {
            core.device.create_buffer(&::wgpu::BufferDescriptor {
                label: Some("wgattn/readback"),
                size: bytes,
                usage: ::wgpu::BufferUsages::MAP_READ | ::wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })?;
        match origin {
            Origin::Buffer(source, offset) => {
                encoder.copy_buffer_to_buffer(source, offset, &buffer, 0, bytes);
            }
            Origin::Texture(texture) => encoder.copy_texture_to_buffer(
                texture.as_image_copy(),
                ::wgpu::TexelCopyBufferInfo {
                    buffer: &buffer,
                    layout: ::wgpu::TexelCopyBufferLayout {
                        offset: 0,
                        bytes_per_row: Some(row_pitch(texture.width())),
                        rows_per_image: None,
                    },
                },
                texture.size(),
            ),
        }
        let state = Arc::new(AtomicU8::new(PENDING));
        let failure = Arc::new(Mutex::new(String::new()));
        let (set, why) = (Arc::clone(&state), Arc::clone(&failure));
        encoder.map_buffer_on_submit(&buffer, ::wgpu::MapMode::Read, .., move |result| {
            if let (Err(e), Ok(mut text)) = (&result, why.lock()) {
                *text = e.to_string();
            }
            set.store(if result.is_ok() { MAPPED } else { FAILED }, Ordering::Release);
        });
        Ok(Self { core: Arc::clone(core), buffer, shape, dtype, state, failure })
    }

    /// The numbers, once; `None` until the copy has arrived.
    ///
    /// Errors: a failed map or a lost device.
    pub fn try_take(&self) -> Option<Result<HostTensor>> {
        match self.state.load(Ordering::Acquire) {
            MAPPED => {
                self.state.store(TAKEN, Ordering::Release);
                Some(self.take())
            }
            FAILED => {
                let reason = self.failure.lock().map_or_else(|_| "unknown".into(), |t| t.clone());
                Some(Err(self.core.failed("readback", reason)))
            }
            TAKEN => None,
            _ => self.core.alive().err().map(Err),
        }
    }

    /// Waits for the numbers: submits nothing, but blocks on the device.
    ///
    /// Errors: a failed map or a lost device.
    pub fn wait(&self) -> Result<HostTensor> {
        let deadline = Instant::now() + ARRIVAL;
        loop {
            self.core.wait("readback")?;
            if let Some(result) = self.try_take() {
                return result;
            }
            // Another thread that submits or polls may have collected our callback and not called it yet.
            if self.state.load(Ordering::Acquire) == TAKEN || Instant::now() > deadline {
                return Err(self.core.failed("readback", "the copy was not submitted, or already taken"));
            }
            std::thread::yield_now();
        }
    }

    fn take(&self) -> Result<HostTensor> {
        let view = self.buffer.slice(..).get_mapped_range().map_err(|e| self.core.failed("readback", e))?;
        let bytes =
            if self.dtype == DType::Rgba8 { without_padding(&view, self.shape) } else { view.to_vec() };
        drop(view);
        self.buffer.unmap();
        HostTensor::from_device_bytes(
            self.shape,
            self.dtype,
            &bytes[..(self.shape.len() * self.dtype.bytes()).next_multiple_of(4) as usize],
        )
    }
}

/// Rows of pixels without the pitch.
fn without_padding(bytes: &[u8], shape: Shape) -> Vec<u8> {
    let width = shape.dims().get(1).copied().unwrap_or(1);
    let (row, pitch) = (width as usize * 4, row_pitch(width) as usize);
    bytes.chunks(pitch).flat_map(|line| &line[..row]).copied().take(shape.len() as usize * 4).collect()
}
