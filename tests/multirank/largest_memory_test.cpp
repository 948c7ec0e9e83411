// Whose memory observers are told of.
#include <gmock/gmock.h>

#include "invariant_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace largest_memory_test {

std::string report_of(const Sets& sets) {
  const TestFolder folder;
  run_trainer({tiny_config() + "[observers.console]\ntype = \"none\"\n",
               with({"run.out=" + folder.at("run"),
                     "run.steps=3",
                     "checkpoint.save=false",
                     "model.layers=4",
                     "parallel.pipeline=2"},
                    sets)});
  return folder.read("run/report.html");
}

TEST(Report, ShowsTheMemoryOfTheFullestRank) {
  using ::testing::HasSubstr;
  EXPECT_THAT(report_of({"placement.first=1"}),
              HasSubstr("<h2>Memory of rank 1, the fullest of 2, at its peak</h2>"));
  EXPECT_THAT(report_of({"placement.last=1"}),
              HasSubstr("<h2>Memory of rank 0, the fullest of 2, at its peak</h2>"));
}

}  // namespace largest_memory_test
}  // namespace tessera::testing
