#pragma once
#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/router.hpp"

namespace tessera {

/// All `n` rows belong to one of the sequences.
void check_sequences(const Infer& check, const SequenceRows& rows, i64 n);

}  // namespace tessera
