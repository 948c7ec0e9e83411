#include <fmt/format.h>

#include <cstdio>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/keys.hpp"
#include "kernel/launch/open_plugins.hpp"

namespace tessera {

int run_config_keys(const KeysOptions& options) {
  const auto host = open_plugins({options.path.begin(), options.path.end()});
  const auto tables = tables_below(key_tables(*host), options.section);
  switch (options.format) {
    case KeysOptions::text:
      show("{}", keys_text(tables));
      break;
    case KeysOptions::markdown:
      show("{}", keys_markdown(tables));
      break;
    case KeysOptions::megatron:
      show("{}", megatron_markdown(tables));
      break;
  }
  return 0;
}

}  // namespace tessera
