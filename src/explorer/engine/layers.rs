//! Rows to pictures: heads fused, differences taken and colours chosen on the device, into a texture the window draws.

use super::machine::{Machine, Stage, Window};
use super::ranges::Scale;
use crate::error::Result;
use crate::explorer::settings::{Fusion, Look};
use crate::explorer::snapshot::{Layer, LayerId};
use crate::explorer::textures;
use crate::graph::{Graph, PassId};
use crate::kernels::image::{colormap, fuse_heads};
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use crate::vision::palette::Palette;
use glam::UVec2;

/// Colour of NaN: in no colour map.
const NAN: [u8; 4] = [255, 0, 0, 255];
/// Colour of infinities: in no colour map.
const INFINITE: [u8; 4] = [0, 255, 0, 255];

/// Paints one layer.
#[derive(Debug)]
pub(super) struct Painter {
    id: LayerId,
    stage: Stage,
    texture: wgpu::Texture,
    rows: Tensor,
    less: Option<Tensor>,
    colours: Tensor,
    out: Tensor,
    fuse: PassId,
    map: PassId,
    palette: Option<(Palette, bool)>,
}

impl Painter {
    /// Compiles the way from rows `[1, heads, tokens, 1]` of `from`, less those of another, to a texture of the window's.
    pub(super) fn new(
        id: LayerId,
        machine: &Machine,
        window: &Window,
        from: &mut Stage,
        tensors: (Tensor, Option<Tensor>),
        sides: (u32, u32),
    ) -> Result<Self> {
        Self::of_shape(id, machine, window, from, (tensors.0.shape(), tensors), sides)
    }

    /// The same for numbers that `from` holds in another shape.
    pub(super) fn of_shape(
        id: LayerId,
        machine: &Machine,
        window: &Window,
        from: &mut Stage,
        (shape, (rows, less)): (Shape, (Tensor, Option<Tensor>)),
        sides: (u32, u32),
    ) -> Result<Self> {
        let mut graph = Graph::new("layer");
        let [heads, tokens] = [1, 2].map(|axis| shape.dims().get(axis).copied().unwrap_or(1));
        let input = graph.input("rows", shape, DType::F32);
        let as_matrix = graph.reshape(input, [heads, tokens])?;
        let less_input = less.map(|t| graph.input("rows to take off", t.shape(), DType::F32));
        let less_matrix = less_input.map(|t| graph.reshape(t, [heads, tokens])).transpose()?;
        let colours = graph.input("colours", [256], DType::U32);
        let (fused, fuse) =
            fuse_heads::record(&mut graph, "fused", as_matrix, less_matrix, fuse_heads::Params::default())?;
        let picture = graph.reshape(fused, [sides.0, sides.1])?;
        let out = graph.transient("layer", [sides.0, sides.1], DType::Rgba8);
        let map = graph.pass(
            &colormap::SPEC,
            &colormap::Params::default(),
            &[Some(picture), Some(colours), Some(out)],
        )?;
        graph.output(out)?;
        let mut stage = machine.stage(&graph, &mut |_, _| {})?;
        let texture = textures::pixels(&window.device, "layer", UVec2::new(sides.1, sides.0));
        if let (Stage::Wgpu(program), true) = (&mut stage, machine.draws()) {
            program.bind_texture(out, &texture)?;
        }
        let mut painter = Self {
            id,
            stage,
            texture,
            rows: input,
            less: less_input,
            colours,
            out,
            fuse,
            map,
            palette: None,
        };
        painter.link(from, (rows, less))?;
        Ok(painter)
    }

    /// Lets it read the rows of `from`.
    fn link(&mut self, from: &mut Stage, (rows, less): (Tensor, Option<Tensor>)) -> Result<()> {
        self.stage.link(self.rows, from, rows)?;
        if let (Some(input), Some(less)) = (self.less, less) {
            self.stage.link(input, from, less)?;
        }
        Ok(())
    }

    /// Paints.
    pub(super) fn paint(
        &mut self,
        window: &Window,
        from: &mut Stage,
        tensors: (Tensor, Option<Tensor>),
        look: &Look,
        scale: Scale,
    ) -> Result<Layer> {
        if self.stage.is_copied() {
            self.link(from, tensors)?;
        }
        let fusion = match self.id {
            LayerId::Head(head) => Fusion::Head(head),
            _ => look.fusion,
        };
        let (mode, head) = match fusion {
            Fusion::Mean => (fuse_heads::MEAN, 0),
            Fusion::Max => (fuse_heads::MAX, 0),
            Fusion::Min => (fuse_heads::MIN, 0),
            Fusion::Head(head) => (fuse_heads::ONE, head as u32),
        };
        let params = fuse_heads::Params { mode, head, log: u32::from(look.log), least: scale.least };
        let first = u32::from_le_bytes(colour(scale.palette, scale.grey, 0.0));
        let mark = |c: [u8; 4]| if look.flag_bad { u32::from_le_bytes(c) } else { first };
        let colours = colormap::Params {
            low: scale.range.0,
            high: scale.range.1,
            nan: mark(NAN),
            infinite: mark(INFINITE),
        };
        let program = self.stage.program();
        program.set_params(self.fuse, &params)?;
        program.set_params(self.map, &colours)?;
        if self.palette != Some((scale.palette, scale.grey)) {
            program.write(self.colours, &table(scale.palette, scale.grey)?)?;
            self.palette = Some((scale.palette, scale.grey));
        }
        program.run()?;
        let drawn =
            matches!(&self.stage, Stage::Wgpu(p) if p.texture(self.out).is_ok_and(|t| *t == self.texture));
        if !drawn {
            let pixels = self.stage.program().read(self.out)?;
            textures::write(&window.queue, &self.texture, &pixels.device_bytes());
        }
        Ok(Layer {
            id: self.id,
            texture: self.texture.clone(),
            range: scale.range,
            palette: scale.palette,
            grey: scale.grey,
            log: look.log,
        })
    }
}

/// Colour at `t` in 0…1.
fn colour(palette: Palette, grey: bool, t: f64) -> [u8; 4] {
    let [r, g, b] = match grey {
        true => [(t * 255.0).round() as u8; 3],
        false => palette.colour(t),
    };
    [r, g, b, 255]
}

fn table(palette: Palette, grey: bool) -> Result<HostTensor> {
    let packed = |i: u32| u32::from_le_bytes(colour(palette, grey, f64::from(i) / 255.0));
    HostTensor::new([256], HostData::U32((0..256).map(packed).collect()))
}
