#pragma once
#include "tessera/converter.hpp"

namespace tessera {

/// Keys below "model.block.attention.rotary." of a config.json with "rope_theta" and
/// "rope_scaling", as transformers 4 writes it, or with "rope_parameters". `positions`: the
/// model's; `base`: what it has without "rope_theta".
Settings rotary_to_ours(Claims& theirs, i64 positions, double base, bool interleaved);

/// The inverse but for "interleaved", as "rope_theta" and "rope_scaling", which all versions read.
/// `format` names the other format in errors, `block` the table of ours with the attention,
/// "model.block".
Settings rotary_to_theirs(const ModelKeys& ours, const std::string& block, std::string_view format);

}  // namespace tessera
