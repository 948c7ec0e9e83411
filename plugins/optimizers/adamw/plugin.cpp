#include "tessera/plugin.hpp"

#include "adamw.hpp"

TESSERA_PLUGIN(adamw, "0.1.0", "AdamW update rule") {
  registrar.add<tessera::UpdateRule, tessera::AdamW>(
      "adamw", "AdamW (Loshchilov, Hutter 2019): two moments a parameter, decoupled weight decay.");
}
