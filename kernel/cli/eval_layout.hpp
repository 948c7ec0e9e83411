#pragma once
#include "kernel/cli/commands.hpp"
#include "kernel/config/config.hpp"

namespace tessera {

/// How `tessera eval` lays out a model: sizes of axes come from --set alone, and what --ranks gives
/// and no axis takes is data-parallel.
ConfigText eval_layout(const EvalOptions& options);

}  // namespace tessera
