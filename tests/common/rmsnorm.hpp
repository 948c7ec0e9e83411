#pragma once

namespace tessera::testing {

/// The arguments of an operation of LayerNorm that make it RMSNorm's.
template <class Args>
Args rmsnorm() {
  Args args;
  args.centred = false;
  return args;
}

}  // namespace tessera::testing
