#include "kernel/train/host_kernels.hpp"

#include "tessera/operation.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

namespace {

void reciprocal(const ReciprocalArgs& args) {
  for (i64 i = 0; i < args.x.shape[0]; ++i) {
    const i64 x = args.x.as<i64>()[i];
    args.out.as<double>()[i] = x == 0 ? 0.0 : 1.0 / static_cast<double>(x);
  }
}

}  // namespace

void register_host_kernels(Registrar& registrar) {
  registrar.add_kernel("host", make_kernel<ReciprocalArgs>(&reciprocal));
}

}  // namespace tessera
