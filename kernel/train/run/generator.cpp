#include "kernel/train/run/generator.hpp"

#include "kernel/train/run/token_ids.hpp"

namespace tessera {

Generator::Generator(const RunSetup& setup,
                     const std::string& folder,
                     const RankIdentity& identity,
                     i64 places)
    : model_(setup, folder, identity, "generate"),
      evaluation_(model_.placed()),
      sampler_(evaluation_, model_.setup(), places),
      ends_(end_tokens(model_.setup())) {}

Generator::Generator(const Resolved& config,
                     const PluginHost& plugins,
                     const std::string& folder,
                     int threads,
                     i64 places)
    : Generator(
          derive_setup(config, plugins, 1, DataUse::none), folder, {.threads = threads}, places) {}

}  // namespace tessera
