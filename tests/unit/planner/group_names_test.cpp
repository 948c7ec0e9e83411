#include "kernel/planner/group_names.hpp"

#include <gmock/gmock.h>

#include <map>

namespace tessera {
namespace group_names_test {

std::map<std::string, std::string> names_of(const Layout& layout) {
  const RankGenerator ranks(layout);
  std::map<std::string, std::string> names;
  for (const std::string_view name : Mesh::group_names()) {
    names.emplace(name, shown_group(name, ranks));
  }
  return names;
}

TEST(GroupNames, AreTheAxesWithSeveralRanks) {
  const auto names = names_of({.world = 8, .tensor = 2, .pipeline = 2});
  EXPECT_EQ(names.at("tp"), "tp");
  EXPECT_EQ(names.at("cp"), "");
  EXPECT_EQ(names.at("dp-cp"), "dp");
  EXPECT_EQ(names.at("tp-cp"), "tp");
  EXPECT_EQ(names.at("tp-cp-dp"), "tp-dp");
  EXPECT_EQ(names.at("world"), "tp-dp-pp");
}

TEST(GroupNames, OfExpertsAreThoseOfTheDensePartWhereTheyLieAlike) {
  const auto alike = names_of({.world = 8, .tensor = 2, .context = 2});
  EXPECT_EQ(alike.at("etp"), "tp");
  EXPECT_EQ(alike.at("ep"), "");
  EXPECT_EQ(alike.at("edp"), "dp-cp");
  EXPECT_EQ(alike.at("etp-ep"), "tp");
  const auto own = names_of({.world = 8, .tensor = 2, .expert = 4, .expert_tensor = 1});
  EXPECT_EQ(own.at("etp"), "");
  EXPECT_EQ(own.at("etp-ep"), "ep");
  EXPECT_EQ(own.at("edp"), "edp");
}

// Equal names, equal ranks: what is listed once may be sent over by either name.
TEST(GroupNames, StandForTheSameRanks) {
  for (const Layout& layout : {Layout{.world = 8, .tensor = 2},
                               Layout{.world = 8, .context = 2, .pipeline = 2},
                               Layout{.world = 16, .tensor = 2, .expert = 4, .expert_tensor = 2}}) {
    const RankGenerator ranks(layout);
    for (const auto& [name, shown] : names_of(layout)) {
      if (shown.empty()) continue;
      const std::string all = name == "world" ? "tp-cp-dp-pp" : name;
      EXPECT_EQ(ranks.groups(shown), ranks.groups(all)) << name << " as " << shown;
    }
  }
}

}  // namespace group_names_test
}  // namespace tessera
