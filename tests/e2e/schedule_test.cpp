// `tessera schedule` as a user meets it.
#include <gmock/gmock.h>

#include "program_support.hpp"

namespace tessera {
namespace schedule_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_tessera;
using ::testing::StartsWith;
using testing::TestFolder;

std::string output_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "schedule");
  const ProcessResult result = run_tessera(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  return result.out;
}

std::string error_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "schedule");
  const ProcessResult result = run_tessera(std::move(arguments));
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  return result.err;
}

TEST(ScheduleCommand, DrawsAndReports) {
  EXPECT_EQ(output_of({"1f1b", "--ranks", "2", "--microbatches", "3"}),
            "1f1b: 2 ranks, 1 chunk a rank, 3 microbatches\n"
            "\n"
            "rank 0  F0   F1             B0        F2   B1             B2\n"
            "rank 1       F0   B0        F1   B1        F2   B2\n"
            "\n"
            "rank 0  warm-up 1, live 2\n"
            "rank 1  warm-up 0, live 1\n"
            "verified; bubble 25.0% (forward 1, backward 2, its halves 1 each)\n");
}

// Pipeline 4, two chunks, 8 microbatches: the worked example of the notation.
TEST(ScheduleCommand, JsonIsInThePublishedNotation) {
  const std::string out = output_of(
      {"interleaved_1f1b", "--ranks", "4", "--chunks", "2", "--microbatches", "8", "--json"});
  EXPECT_THAT(out,
              StartsWith("{\"ranks\":[{\"rank\":0,\"order\":[1,1,1,1,2,2,2,2,1,1,1,"
                         "-2,1,-2,2,-2,2,-2,2,-1,2,-1,-1,-1,-2,-2,-2,-2,-1,-1,"
                         "-1,-1],\"warmup\":10,\"live\":[8,4]},{\"rank\":1,"));
  EXPECT_THAT(out, HasSubstr("\"warmup\":4,\"live\":[5,1]}],\"bubble\":0.15789"));
  EXPECT_EQ(output_of({"zb_h1", "--ranks", "1", "--microbatches", "2", "--json"}),
            "{\"ranks\":[{\"rank\":0,\"order\":[1,-1,-1.5,1,-1,-1.5],\"warmup\":0,"
            "\"live\":[1]}],\"bubble\":0.0}\n");
  EXPECT_THAT(output_of({"zbv", "--ranks", "2", "--microbatches", "2", "--json"}),
              HasSubstr("[1,1,2,-2,-2.5,2,-2,-2.5,-1,-1.5,-1,-1.5]"));
  EXPECT_THAT(
      output_of({"1f1b", "--ranks", "2", "--microbatches", "3", "--forward-only", "--json"}),
      HasSubstr("\"rank\":1,\"order\":[1,1,1],\"warmup\":3,\"live\":[1]}"));
}

// A pair is listed as F, B, and its layers take turns.
TEST(ScheduleCommand, TellsTheOrderLayerByLayer) {
  const std::vector<std::string> pairs = {"interleaved_1f1b",
                                          "--ranks",
                                          "1",
                                          "--microbatches",
                                          "2",
                                          "--set",
                                          "overlap=true",
                                          "--layers",
                                          "1,2"};
  EXPECT_THAT(output_of(pairs),
              HasSubstr("rank 0  by layer 1 2 3 1 -3 -3.5 -2 -2.5 2 -1 -1.5 3 "
                        "-3 -3.5 -2 -2.5 -1 -1.5\n"));
  EXPECT_THAT(output_of({"1f1b",
                         "--ranks",
                         "2",
                         "--microbatches",
                         "3",
                         "--set",
                         "overlap=true",
                         "--layers",
                         "2",
                         "--json"}),
              AllOf(HasSubstr("\"order\":[1,1,1,-1,-1,-1],\"layer_order\":[1,2,1,2,1,2,"),
                    HasSubstr("\"order\":[1,1,-1,1,-1,-1],\"layer_order\":[1,2,1,-2,-2.5,2,-1,"
                              "-1.5,1,-2,-2.5,2,-1,-1.5,-2,-2.5,-1,-1.5]")));
  EXPECT_THAT(
      error_of({"1f1b", "--ranks", "1", "--microbatches", "2", "--layers", "1,2"}),
      HasSubstr("--layers has 2 numbers, and a rank has 1 chunk: give one for each, or one"));
}

TEST(ScheduleCommand, TakesTheSchedulesOwnKeys) {
  EXPECT_THAT(output_of({"interleaved_1f1b",
                         "--ranks",
                         "2",
                         "--microbatches",
                         "5",
                         "--set",
                         "microbatch_group=3",
                         "--json"}),
              HasSubstr("[1,1,1,2,2,2,-2,1,-2,1,-2,2,-1,2,-1,-1,-2,-2,-1,-1]"));
}

TEST(ScheduleCommand, RefusesMoreThanASchedulesNumbersCount) {
  EXPECT_THAT(error_of({"interleaved_1f1b",
                        "--ranks",
                        "2",
                        "--microbatches",
                        "1048576",
                        "--set",
                        "chunks=10000"}),
              HasSubstr("1048576 microbatches of 10000 chunks on 2 ranks: a schedule has at most "
                        "16777216 of all ranks"));
}

TEST(ScheduleCommand, DrawsToAFile) {
  const TestFolder folder;
  const std::string file = (folder.path() / "schedule.svg").string();
  output_of({"dualpipe_v", "--ranks", "2", "--microbatches", "4", "--svg", file});
  EXPECT_THAT(testing::read_file(file),
              AllOf(StartsWith("<svg xmlns="),
                    HasSubstr("dualpipe_v: 2 ranks, 2 chunks a rank, 4 microbatches: bubble"),
                    HasSubstr("<title>backward (weights) of microbatch 3, chunk 0: "),
                    HasSubstr(">backward (inputs), chunk 0</text>"),
                    HasSubstr("time in forwards of a microbatch"),
                    ::testing::EndsWith("</svg>\n")));
}

TEST(ScheduleCommand, SaysWhatIsWrong) {
  EXPECT_THAT(error_of({"1fb1", "--ranks", "2", "--microbatches", "3"}),
              AllOf(HasSubstr("there is no component \"schedule/1fb1\"; did you mean "
                              "\"schedule/1f1b\"?"),
                    HasSubstr("known schedules: 1f1b, auto, dualpipe_v, gpipe")));
  EXPECT_THAT(
      error_of({"interleaved_1f1b", "--ranks", "4", "--microbatches", "6"}),
      HasSubstr("the last group of 6 microbatches has 2, fewer than parallel.pipeline = 4"));
  EXPECT_THAT(error_of({"1f1b", "--ranks", "2", "--chunks", "2", "--microbatches", "3"}),
              HasSubstr("schedule \"1f1b\" has 1 chunk a rank, not 2"));
  EXPECT_THAT(error_of({"sequential", "--ranks", "2", "--microbatches", "3"}),
              HasSubstr("needs parallel.pipeline = 1"));
  EXPECT_THAT(error_of({"1f1b", "--ranks", "0", "--microbatches", "3"}), HasSubstr("--ranks"));
  EXPECT_THAT(error_of({"1f1b", "--ranks", "2"}), HasSubstr("--microbatches is required"));
  EXPECT_THAT(
      error_of({"interleaved_1f1b", "--ranks", "2", "--microbatches", "4", "--set", "chunk=2"}),
      HasSubstr("did you mean \"chunks\"?"));
  EXPECT_THAT(
      error_of({"interleaved_1f1b", "--ranks", "2", "--microbatches", "4", "--set", "chunks=x"}),
      StartsWith("--set #1: [schedule] chunks: expected integer in [1, 10000], got \"x\""));
}

}  // namespace schedule_test
}  // namespace tessera
