// Graphs as a user meets them: what a run and the planner say of them, and a policy of one's own.
#include <gmock/gmock.h>

#include "common/metrics_lines.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace graphs_test {

using ::testing::HasSubstr;

// The rest of the line that begins with `label`.
std::string line_of(const std::string& text, const std::string& label) {
  const std::size_t at = text.find("\n" + label);
  if (at == std::string::npos) return "no line: " + label;
  const std::size_t begin = at + 1 + label.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::vector<std::string> with_sets(std::vector<std::string> command,
                                   const std::vector<std::string>& sets) {
  for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
  return command;
}

TEST(Graphs, ARunAndThePlannerSayTheSame) {
  const std::vector<std::vector<std::string>> layouts = {
      {"graph.type=partial"},
      {"graph.type=partial", "graph.scope=[\"attn\"]", "parallel.tensor=2"},
      {"graph.type=partial", "parallel.pipeline=2"},
      {"graph.type=full_iteration"},
      {"graph.type=full_iteration", "parallel.pipeline=2"}};
  for (const auto& layout : layouts) {
    const TinyRun run;
    const std::vector<std::string> sets = TinyRun::steps(3, "run", layout);
    const ProcessResult trained = run.train(sets);
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    const ProcessResult planned =
        run_tessera(with_sets({"plan", run.at("tiny.toml")}, sets), run.options());
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    const std::string said = line_of(trained.out, "  graphs      ");
    EXPECT_THAT(said, HasSubstr(" launches a step replayed; inputs "));
    EXPECT_EQ(line_of(planned.out, "  graphs: "), said);
  }
}

// One graph a chunk, from a plugin outside of the tree.
TEST(Graphs, APolicyOfOnesOwnIsObeyed) {
  const TinyRun run;
  run.folder.write("graphs.toml",
                   "schema = 1\n[plugins]\npath = [\"" TESSERA_BUILD_DIR
                   "/plugins\", \"" TESSERA_BUILD_DIR
                   "/tests/plugins/whole_chunks\"]\n[graph]\ntype = \"test_whole_chunks\"\n");
  const auto losses = [&](const std::string& out, const std::vector<std::string>& files) {
    std::vector<std::string> command = {"train", run.at("tiny.toml")};
    command.insert(command.end(), files.begin(), files.end());
    EXPECT_THAT(run_tessera(with_sets(command, TinyRun::steps(5, out)), run.options()),
                Prints(0, files.empty() ? "" : "2 graphs of 1 segment in 1 slot, 9"));
    std::vector<double> values;
    for (const std::string& line : metrics_lines(run.at(out))) {
      if (const auto value = metric_in(line, "loss")) values.push_back(*value);
    }
    return values;
  };
  const std::vector<double> eager = losses("eager", {});
  EXPECT_EQ(eager.size(), 5U);
  EXPECT_EQ(losses("replayed", {run.at("graphs.toml")}), eager);
}

TEST(Graphs, ChecksRunBothWays) {
  const TinyRun run;
  const ProcessResult result =
      run.train(TinyRun::steps(6, "run", {"graph.type=partial", "check.graphs_every=2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace graphs_test
}  // namespace tessera::testing
