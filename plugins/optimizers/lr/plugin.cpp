#include "tessera/plugin.hpp"

#include "lr_schedules.hpp"

TESSERA_PLUGIN(lr, "0.1.0", "Learning rates: constant, linear, cosine, inverse_sqrt, wsd") {
  registrar.add<tessera::LrSchedule, tessera::ConstantLr>("constant",
                                                          "Linear rise to peak, then peak.");
  registrar.add<tessera::LrSchedule, tessera::LinearLr>(
      "linear", "Linear rise to peak, then a straight line down to min.");
  registrar.add<tessera::LrSchedule, tessera::CosineLr>(
      "cosine", "Linear rise to peak, then half a cosine down to min.");
  registrar.add<tessera::LrSchedule, tessera::InverseSqrtLr>(
      "inverse_sqrt", "Linear rise to peak, then down as one over the root of the update.");
  registrar.add<tessera::LrSchedule, tessera::WsdLr>(
      "wsd", "Linear rise to peak, then peak, then down to min in the last updates.");
}
