#include "text_models_support.hpp"

#include "kernel/comm/store.hpp"

namespace tessera::testing {

void on_exact_ranks(const PluginHost& host,
                    const Sets& sets,
                    const std::function<void(RankRun&)>& body) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", with(kExact, sets)), host);
  const i64 world = world_size(config.run);
  InProcessStore store;
  run_ranks(
      derive_setup(config, host, world),
      [&](i64 rank) { return thread_identity(rank, world, store); },
      body);
}

}  // namespace tessera::testing
