//! An answer of the engine made by hand, for tests of what is around the views.

use glam::UVec2;
use std::time::Duration;
use wgattn::backend::{DeviceInfo, DeviceKind, Memory, StepTime, TimingSource, Timings};
use wgattn::explorer::settings::{Compute, Look};
use wgattn::explorer::snapshot::{Row, Snapshot};
use wgattn::vision::grid::TokenGrid;

/// 64 × 48 pixels in tokens of 8: 8 columns, 6 rows, two heads; token 13 is the query.
pub(crate) fn snapshot() -> Snapshot {
    let grid = TokenGrid::plan(UVec2::new(64, 48), 8, 8, 1000).expect("a grid");
    let tokens = grid.tokens();
    let head = |h: usize| (0..tokens).map(|t| ((t * 7 + h * 3) % tokens) as f32 / 64.0).collect::<Vec<f32>>();
    let heads = vec![head(0), head(1)];
    let fused = (0..tokens).map(|t| (heads[0][t] + heads[1][t]) / 2.0).collect::<Vec<f32>>();
    let exact = Row { heads: heads.clone(), fused: fused.iter().map(|x| x + 0.0625).collect() };
    Snapshot {
        request: 1,
        compute: Compute::default(),
        look: Look::default(),
        query: UVec2::new(44, 12),
        query_token: 13,
        grid,
        device: DeviceInfo {
            name: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
            backend: "vulkan".into(),
            kind: DeviceKind::Software,
            driver: "llvmpipe Mesa 22.3.6".into(),
        },
        on_window_device: true,
        lambda: vec![7.31, 6.42],
        landmarks: 49,
        landmark_cells: Vec::new(),
        exact: false,
        row: Row { heads, fused },
        exact_row: Some(exact),
        relative_error: Some(0.0312),
        no_exact: None,
        no_parity: None,
        unmasked_row: None,
        mask_weights: None,
        mask_way: None,
        guard: None,
        diffusion: None,
        hidden_keys: None,
        inverse: Vec::new(),
        trace: None,
        distances: None,
        parity: None,
        sinks: vec![20],
        schedules: Vec::new(),
        timings: Timings {
            source: TimingSource::Timestamp,
            steps: vec![StepTime {
                kernel: "nystrom_row",
                variant: "plain",
                seconds: 0.0123,
                cpu_seconds: Some(0.0246),
                by_host: false,
                by_token: true,
            }],
            wall_seconds: 0.014,
            cpu_seconds: 0.0246,
        },
        latency: Duration::from_micros(18_400),
        memory: Memory {
            transient: 30 << 20,
            transient_unshared: 40 << 20,
            external: 3 << 20,
            staging: 1 << 18,
        },
        notices: Vec::new(),
        layers: Vec::new(),
    }
}
