//! Timestamps of a pass or of a whole run, and when not to believe them.

use super::Core;
use crate::error::Result;

/// Two timestamps with the buffers to read them.
#[derive(Debug)]
pub(super) struct Queries {
    set: ::wgpu::QuerySet,
    resolved: ::wgpu::Buffer,
    readable: ::wgpu::Buffer,
}

/// Seconds between two ticks, or `None` where they cannot be right: zero, not increasing, longer than the host waited,
/// or without a period.
pub(crate) fn plausible_seconds(begin: u64, end: u64, period_nanos: f32, wall_seconds: f64) -> Option<f64> {
    let period = f64::from(period_nanos);
    let seconds = end.checked_sub(begin)? as f64 * period * 1e-9;
    let sane = begin > 0 && seconds > 0.0 && period.is_finite() && seconds <= wall_seconds * 1.05 + 1e-4;
    sane.then_some(seconds)
}

impl Queries {
    pub(super) fn new(core: &Core) -> Result<Self> {
        core.checked("timestamps", || {
            let make = |label, usage| {
                let (size, mapped_at_creation) = (16, false);
                core.device.create_buffer(&::wgpu::BufferDescriptor {
                    label: Some(label),
                    size,
                    usage,
                    mapped_at_creation,
                })
            };
            Self {
                set: core.device.create_query_set(&::wgpu::QuerySetDescriptor {
                    label: Some("wgattn/timestamps"),
                    ty: ::wgpu::QueryType::Timestamp,
                    count: 2,
                }),
                resolved: make(
                    "wgattn/ticks",
                    ::wgpu::BufferUsages::QUERY_RESOLVE | ::wgpu::BufferUsages::COPY_SRC,
                ),
                readable: make(
                    "wgattn/ticks read",
                    ::wgpu::BufferUsages::MAP_READ | ::wgpu::BufferUsages::COPY_DST,
                ),
            }
        })
    }

    pub(super) fn writes(&self) -> ::wgpu::ComputePassTimestampWrites<'_> {
        ::wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        }
    }

    /// Writes one of the two timestamps between passes: 0 begins, 1 ends.
    pub(super) fn mark(&self, encoder: &mut ::wgpu::CommandEncoder, index: u32) {
        let writes = ::wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: (index == 0).then_some(0),
            end_of_pass_write_index: (index == 1).then_some(1),
        };
        let _empty = encoder.begin_compute_pass(&::wgpu::ComputePassDescriptor {
            label: Some("wgattn/timestamp"),
            timestamp_writes: Some(writes),
        });
    }

    pub(super) fn resolve(&self, encoder: &mut ::wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.set, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readable, 0, 16);
    }

    /// Seconds of the pass, after its commands have run.
    pub(super) fn seconds(&self, core: &Core, wall_seconds: f64) -> Result<Option<f64>> {
        self.readable.slice(..).map_async(::wgpu::MapMode::Read, |_| {});
        core.wait("timestamps")?;
        let view = self.readable.slice(..).get_mapped_range().map_err(|e| core.failed("timestamps", e))?;
        let tick = |i: usize| view[8 * i..8 * i + 8].iter().rev().fold(0_u64, |x, &b| x << 8 | u64::from(b));
        let (begin, end) = (tick(0), tick(1));
        drop(view);
        self.readable.unmap();
        Ok(plausible_seconds(begin, end, core.queue.get_timestamp_period(), wall_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::plausible_seconds;

    #[test]
    fn ticks_that_fit_the_wall_clock_are_believed() {
        let seconds = plausible_seconds(1_000, 2_001_000, 1.0, 0.01).expect("2 ms of 10 ms");
        assert!((seconds - 0.002).abs() < 1e-12, "{seconds}");
        // A period other than 1, as Apple's.
        let seconds = plausible_seconds(24, 48_024, 41.666_668, 0.01).expect("2 ms of 10 ms");
        assert!((seconds - 0.002).abs() < 1e-8, "{seconds}");
    }

    #[test]
    fn zero_equal_and_falling_ticks_are_not_believed() {
        for (begin, end) in [(0, 0), (0, 5_000), (7_000, 7_000), (9_000, 8_000), (u64::MAX, 1)] {
            assert_eq!(plausible_seconds(begin, end, 1.0, 1.0), None, "{begin} to {end}");
        }
    }

    #[test]
    fn a_period_that_is_no_period_is_not_believed() {
        for period in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(plausible_seconds(1_000, 2_000, period, 1.0), None, "{period}");
        }
    }

    #[test]
    fn longer_than_the_host_waited_is_not_believed() {
        assert_eq!(plausible_seconds(1, 2_000_000_001, 1.0, 0.5), None);
        assert_eq!(plausible_seconds(1, u64::MAX, 1.0, 0.5), None);
    }
}
