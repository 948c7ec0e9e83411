#include "tessera/plugin.hpp"

#include "console.hpp"

TESSERA_PLUGIN(console, "0.1.0", "Progress on standard output") {
  registrar.add<tessera::Observer, tessera::Console>(
      "console", "Progress on standard output, for people or (--json) for programs.");
}
