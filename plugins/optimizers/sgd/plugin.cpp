#include "tessera/plugin.hpp"

#include "sgd.hpp"

TESSERA_PLUGIN(sgd, "0.1.0", "Gradient descent update rule") {
  registrar.add<tessera::UpdateRule, tessera::Sgd>(
      "sgd", "Gradient descent with optional momentum and decoupled weight decay.");
}
