//! The uniform blocks of all dispatches: parameters, sizes, and where each window begins.

use super::*;

impl WgpuProgram {
    /// The uniform blocks of all launches.
    pub(super) fn param_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (step, prepared) in self.schedule.steps.iter().zip(&self.steps) {
            let words = param_words(step.kernel);
            for launch in &prepared.launches {
                let start = bytes.len();
                for (_, _, word) in &words {
                    bytes.extend(self.param_word(step, prepared, launch, word));
                }
                bytes.resize(start + PARAMS_STRIDE as usize, 0);
            }
        }
        bytes
    }

    pub(super) fn param_word(
        &self,
        step: &Step,
        prepared: &Prepared,
        launch: &Launch,
        word: &ParamWord,
    ) -> [u8; 4] {
        let window = &launch.window;
        // Element positions fit 32 bits: a binding is at most 4 GiB. Subtracting the heads before may wrap, and the
        // shader's additions wrap back.
        let word32 = |x: u64| (x as u32).to_le_bytes();
        let part = |i: usize| {
            window.ports[i].unwrap_or(crate::backend::wgpu::window::Part {
                from: 0,
                len: 0,
                before: 0,
                strides: (0, 0),
            })
        };
        match *word {
            ParamWord::Live(i) => [0, 1, 2, 3].map(|b| step.params[4 * i + b]),
            ParamWord::Dim("b") => step.dims.size("b").to_le_bytes(),
            ParamWord::Dim("h") => step.dims.size("h").to_le_bytes(),
            ParamWord::Dim(name) => window.dims.size(name).to_le_bytes(),
            ParamWord::BatchFrom => word32(window.batch_from),
            ParamWord::GroupFrom => word32(launch.groups.start),
            ParamWord::Groups => word32(launch.groups.end),
            ParamWord::At(i) => {
                let class = prepared
                    .variant
                    .classes
                    .iter()
                    .find(|(n, _)| *n == step.kernel.ports[i].name)
                    .map(|c| c.1);
                let place = match class {
                    Some(Class::Texture) => part(i).from % 4,
                    Some(Class::Uniform) => 0,
                    _ => step.args[i].map_or(0, |t| self.aligned(t, part(i).from).1),
                };
                (place as u32).wrapping_sub(part(i).before as u32).to_le_bytes()
            }
            ParamWord::StrideB(i) => word32(part(i).strides.0),
            ParamWord::StrideH(i) => word32(part(i).strides.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernels_block_fits_its_place() {
        for spec in crate::kernels::KERNELS {
            let bytes = 4 * param_words(spec).len() as u64;
            assert!(bytes <= PARAMS_STRIDE, "{}: {bytes} bytes of parameters", spec.name);
        }
    }
}
