// The loads that are asked for; and a layer with this router on two tensor ranks against one, whose
// ranks route different rows.
#include <cstdio>
#include <exception>
#include <string_view>
#include <tessera/error.hpp>
#include <tessera/moe_ops.hpp>
#include <tessera/router.hpp>
#include <tessera/testing/layer_check.hpp>
#include <tessera/testing/workbench.hpp>

#include "forced_loads.hpp"

namespace {

using namespace example;
using namespace tessera::testing;

const char* const kLoads[] = {"balanced", "hot", "empty", "rotating"};

// Rows of each of 4 experts, of two samples with 4 rows each, two choices a row.
std::string loads(LocalRank& rank, const std::string& name, const std::vector<double>& wanted) {
  const auto router =
      rank.build<Router>(name, "forced_loads", {{"hidden", 3}, {"experts", 4}, {"top_k", 2}});
  std::vector<double> ids;
  for (const i64 sample : {0, 1}) {
    for (i64 position = 0; position < 4; ++position) {
      ids.push_back(static_cast<double>(row_id(sample, position)));
    }
  }
  const Slot rows = rank.slot("row_ids");
  Bundle bundle = rank.bundle();
  bundle[rows] = rank.tensor({8}, DType::i64, ids);
  const Tensor x = rank.tensor({8, 3}, std::vector<double>(24, 1));
  const Routing routing = (*router)(rank.context(), bundle, x);
  const auto counts = read(ops::expert_counts(rank.context(), routing.experts, 4));
  return counts == wanted ? "" : name + ": other loads than those that were asked for\n";
}

// "empty" sends all rows to the lower half, which must have an expert for each choice.
std::string too_many(LocalRank& rank) try {
  rank.build<Router>("crowded", "forced_loads", {{"hidden", 3}, {"experts", 4}, {"top_k", 3}});
  return "three choices among two experts were accepted\n";
} catch (const ConfigError& error) {
  const bool named =
      std::string_view(error.what()).find("fewer experts than top_k") != std::string_view::npos;
  return named ? "" : std::string(error.what()) + "\n";
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  std::string wrong;
  for (const char* name : kLoads) {
    wrong += layer_check(world,
                         {.type = "moe",
                          .values = {{"model.hidden", 16},
                                     {"layer.experts", 4},
                                     {"layer.ffn", 8},
                                     {"layer.router.type", "forced_loads"},
                                     {"layer.router.loads", name}}});
  }
  LocalWorldOptions one_rank;
  one_rank.batch = {2, 4};
  for (const char* name : kLoads) one_rank.values.emplace_back(std::string(name) + ".loads", name);
  one_rank.values.emplace_back("crowded.loads", "empty");
  world.run(one_rank, [&](LocalRank& rank) {
    wrong += loads(rank, "balanced", {4, 4, 4, 4});
    wrong += loads(rank, "hot", {8, 8, 0, 0});
    wrong += loads(rank, "empty", {8, 8, 0, 0});
    wrong += loads(rank, "rotating", {4, 8, 4, 0});
    wrong += too_many(rank);
  });
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
