// `config check` of each configuration of configs/ under each layout of configs/parallel and each
// precision of configs/precision: it passes, or it is refused for the reason that is listed here.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "program_support.hpp"
#include "tessera/io/token_file.hpp"

namespace tessera::testing {
namespace shipped_configs_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Refusal {
  std::string config, layout, reason;
};
const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> kAll = {
      {"scaling/gpt2_2.5b",
       "pp2_zbv",
       "[placement] 54 blocks do not divide among 4 pipeline stages"},
      {"scaling/gpt2_2.5b",
       "pp2_tp2_sp",
       "[placement] 54 blocks do not divide among 4 pipeline stages"},
      {"bert_tiny", "pp2_zbv", "[placement] 2 blocks do not divide among 4 pipeline stages"},
      {"bert_tiny", "pp2_tp2_sp", "[placement] 2 blocks do not divide among 4 pipeline stages"},
      // They set the number of replicas so that each has one microbatch a step.
      {"scaling/gpt2_1.2b", "pp2_tp2_sp", "takes microbatches in groups of 2; the last group of 1"},
      {"scaling/gpt2_4.2b", "pp2_tp2_sp", "takes microbatches in groups of 2; the last group of 1"},
      {"scaling/gpt2_8.3b", "pp2_tp2_sp", "takes microbatches in groups of 2; the last group of 1"},
      {"scaling/bert_336m", "pp2_tp2_sp", "takes microbatches in groups of 2; the last group of 1"},
      {"scaling/bert_1.3b", "pp2_tp2_sp", "takes microbatches in groups of 2; the last group of 1"},
      {"scaling/bert_3.9b", "pp2_tp2_sp", "takes microbatches in groups of 2; the last group of 1"},
  };
  return kAll;
}

// Paths below configs/ without their extension, sorted.
std::vector<std::string> configs_in(const std::string& folder) {
  const fs::path all = TESSERA_SOURCE_DIR "/configs";
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(all / folder)) {
    if (entry.path().extension() != ".toml") continue;
    names.push_back(fs::relative(entry.path(), all).replace_extension().string());
  }
  std::ranges::sort(names);
  return names;
}

// Those of gpus/ have a layout of their own, too.
std::vector<std::string> runnable() {
  std::vector<std::string> names = configs_in(".");
  for (const std::string& name : configs_in("scaling")) names.push_back(name);
  return names;
}

std::string file_of(const std::string& config) {
  return TESSERA_SOURCE_DIR "/configs/" + config + ".toml";
}

// Enough for a sample of the longest sequence among what is held back for validation.
std::string some_text() { return std::string(262144, 'x'); }

// BERT's vocabulary, and sentences of its tokens.
constexpr const char* kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nis\n##s\n";
std::string sentences(const TestFolder& folder) {
  TokenFileWriter writer(folder.at("sentences"), TokenType::u16);
  for (i32 document = 0; document < 200; ++document) {
    for (i32 sentence = 0; sentence < 4; ++sentence) {
      std::vector<i32> ids;
      for (i32 i = 0; i < 40; ++i) ids.push_back(5 + (i + document + sentence) % 5);
      writer.add(ids);
    }
    writer.end_document();
  }
  writer.finish("");
  return folder.at("sentences");
}

// A task's files, as its authors write them; `lines` of it.
std::string task_file(const TestFolder& folder, const std::string& task, const std::string& set) {
  const std::string squad =
      R"({"version":"1.1","data":[{"title":"t","paragraphs":[{"context":"a b c","qas":[)"
      R"({"id":"1","question":"b","answers":[{"text":"b","answer_start":2}]}]}]}]})";
  if (task.starts_with("squad")) return folder.write(set + ".json", squad);
  if (task == "race") {
    fs::create_directories(folder.at(set + "/middle"));
    fs::create_directories(folder.at(set + "/high"));
    const std::string article =
        R"({"article":"a b c","questions":["b _"],"options":[["a","b","c","a b"]],)"
        R"("answers":["A"]})";
    folder.write(set + "/middle/1.txt", article);
    folder.write(set + "/high/2.txt", article);
    return folder.at(set);
  }
  if (task == "qqp") {
    return folder.write(set + ".tsv",
                        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\ta\tb\t1\n");
  }
  return folder.write(set + ".tsv",
                      "index\t1\t2\t3\t4\t5\t6\t7\tsentence1\tsentence2\tl\tgold_label\n"
                      "0\t-\t-\t-\t-\t-\t-\t-\ta b\tc\tneutral\tneutral\n");
}

// What stands for the data of a configuration.
std::vector<std::string> data_of(const std::string& config, const TestFolder& folder) {
  if (config.find("bert") == std::string::npos && !config.starts_with("finetune/")) {
    return {"--set", "data.path=" + folder.write("text.txt", some_text())};
  }
  std::vector<std::string> sets = {"--set", "tokenizer.path=" + folder.write("vocab.txt", kWords)};
  if (!config.starts_with("finetune/")) {
    sets.insert(sets.end(), {"--set", "data.path=[\"" + sentences(folder) + "\"]"});
    return sets;
  }
  const std::string name = config.substr(config.find('/') + 1);
  const std::string task = name.substr(0, name.find('_'));
  for (const std::string set : {"path", "validation_path"}) {
    const std::string file = task_file(folder, task, set);
    sets.insert(sets.end(), {"--set", "data." + set + "=[\"" + file + "\"]"});
  }
  // It begins with the parameters of a run that is not here.
  sets.insert(sets.end(),
              {"--set", "checkpoint.init_from=", "--set", "checkpoint.init_changes=[]"});
  return sets;
}

// The devices that compute in 16 bits.
const std::vector<std::string> kNarrowDevices = {"reference", "cpu"};

class ShippedConfig : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedConfig, PassesInEachLayoutOrIsRefusedForAReason) {
  const TestFolder folder;  // the data of these configurations is fetched, or not needed
  const std::vector<std::string> data = data_of(GetParam(), folder);
  std::vector<std::string> layouts = {""};
  for (const std::string& path : configs_in("parallel")) {
    layouts.push_back(fs::path(path).filename().string());
  }
  ASSERT_GE(layouts.size(), 11U);
  // Their experts are on more ranks than other layouts have.
  if (GetParam().starts_with("scaling/moe_")) layouts = {""};
  for (const std::string& layout : layouts) {
    SCOPED_TRACE(layout);
    std::vector<std::string> command = {"config", "check", file_of(GetParam())};
    if (!layout.empty()) command.push_back(file_of("parallel/" + layout));
    command.insert(command.end(), data.begin(), data.end());
    const ProcessResult result = run_tessera(command);
    const auto refusal = std::ranges::find_if(refusals(), [&](const Refusal& refused) {
      return refused.config == GetParam() && refused.layout == layout;
    });
    if (refusal == refusals().end()) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
    } else {
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_THAT(result.err, HasSubstr(refusal->reason));
    }
  }
}

TEST_P(ShippedConfig, PassesInEachPrecision) {
  const TestFolder folder;
  const std::vector<std::string> data = data_of(GetParam(), folder);
  const std::vector<std::string> precisions = configs_in("precision");
  ASSERT_GE(precisions.size(), 2U);
  for (const std::string& precision : precisions) {
    for (const std::string& device : kNarrowDevices) {
      SCOPED_TRACE(precision + " on " + device);
      std::vector<std::string> command = {"config",
                                          "check",
                                          file_of(GetParam()),
                                          file_of(precision),
                                          "--set",
                                          "device.type=" + device};
      command.insert(command.end(), data.begin(), data.end());
      const ProcessResult result = run_tessera(command);
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
  }
}

TEST_P(ShippedConfig, PassesWithGraphs) {
  const TestFolder folder;
  const std::vector<std::string> data = data_of(GetParam(), folder);
  const bool experts = GetParam().find("moe_") != std::string::npos;
  const bool apart = experts && GetParam().starts_with("scaling/");  // on several ranks
  const std::vector<std::string> graphs = configs_in("graphs");
  ASSERT_GE(graphs.size(), 3U);
  for (const std::string& overlay : graphs) {
    SCOPED_TRACE(overlay);
    std::vector<std::string> command = {"config", "check", file_of(GetParam()), file_of(overlay)};
    command.insert(command.end(), data.begin(), data.end());
    const ProcessResult result = run_tessera(command);
    std::string refused;
    if (!experts && overlay.find("moe_") != std::string::npos) {
      refused = "[graph] scope: no phase is called \"moe_router\"";
    } else if (apart && overlay.find("full_iteration") != std::string::npos) {
      refused = "[graph] type: \"full_iteration\" captures every phase, and the shapes of ";
    }
    EXPECT_EQ(result.exit_code, refused.empty() ? 0 : 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(refused));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShippedConfig, ::testing::ValuesIn(runnable()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(ShippedConfigs, ForGpusPassAndFitTheirHosts) {
  if (run_tessera({"plugins", "show", "communicator/nccl"}).exit_code != 0) {
    GTEST_SKIP() << "built without nvcc";
  }
  const TestFolder folder;
  const std::string text = folder.write("text.txt", some_text());
  const std::vector<std::string> all = configs_in("gpus");
  ASSERT_GE(all.size(), 2U);
  for (const std::string& config : all) {
    SCOPED_TRACE(config);
    const std::vector<std::string> with_data = {file_of(config), "--set", "data.path=" + text};
    std::vector<std::string> check = {"config", "check"}, plan = {"plan"};
    check.insert(check.end(), with_data.begin(), with_data.end());
    plan.insert(plan.end(), with_data.begin(), with_data.end());
    plan.insert(plan.end(), {"--hardware", file_of("hardware/h100-dgx")});
    const ProcessResult checked = run_tessera(check), planned = run_tessera(plan);
    EXPECT_EQ(checked.exit_code, 0) << checked.err;
    check.insert(check.end(), {"--set", "comm.type=auto"});  // is nccl on the device cuda
    const ProcessResult automatic = run_tessera(check);
    EXPECT_EQ(automatic.exit_code, 0) << automatic.err;
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    EXPECT_THAT(planned.out,
                ::testing::AllOf(HasSubstr("it fits"),
                                 ::testing::ContainsRegex("dp +reduce_scatter .* lane bulk")));
  }
}

// Batch, rate and epochs of Shoeybi et al. 2019, table 6.
TEST(ShippedConfigs, FineTuningIsAsInTheTable) {
  struct Row {
    std::string name;
    int batch;
    std::string rate;
    int epochs;
  };
  const std::vector<Row> table = {{"mnli_336m", 128, "1e-05", 10},
                                  {"mnli_1.3b", 128, "1e-05", 10},
                                  {"mnli_3.9b", 128, "1e-05", 10},
                                  {"qqp_336m", 128, "5e-05", 12},
                                  {"qqp_1.3b", 128, "3e-05", 12},
                                  {"qqp_3.9b", 256, "4e-05", 12},
                                  {"squad1_336m", 64, "3e-05", 2},
                                  {"squad1_1.3b", 48, "3e-05", 2},
                                  {"squad1_3.9b", 48, "1e-05", 2},
                                  {"squad2_336m", 48, "3e-05", 2},
                                  {"squad2_1.3b", 64, "3e-05", 2},
                                  {"squad2_3.9b", 48, "1e-05", 2},
                                  {"race_336m", 32, "2e-05", 3},
                                  {"race_1.3b", 16, "1e-05", 3},
                                  {"race_3.9b", 32, "2e-05", 3}};
  ASSERT_EQ(configs_in("finetune").size(), table.size() + 1);  // and what they share
  for (const Row& row : table) {
    SCOPED_TRACE(row.name);
    const TestFolder folder;
    const std::string config = "finetune/" + row.name;
    std::vector<std::string> check = {"config", "check", file_of(config)};
    std::vector<std::string> dump = {"config", "dump", file_of(config)};
    for (const std::string& part : data_of(config, folder)) {
      check.push_back(part);
      dump.push_back(part);
    }
    const ProcessResult checked = run_tessera(check);
    EXPECT_EQ(checked.exit_code, 0) << checked.err;
    const ProcessResult dumped = run_tessera(dump);
    // A sample or two, so all epochs together are a step.
    EXPECT_THAT(dumped.out, HasSubstr(fmt::format("\nglobal = {} ", row.batch)));
    EXPECT_THAT(dumped.out, HasSubstr(fmt::format("\npeak = {} ", row.rate)));
    EXPECT_THAT(dumped.out, HasSubstr(fmt::format("\nepochs = {}", row.epochs)));
    EXPECT_THAT(dumped.out, HasSubstr("\nsteps = 1 "));
    EXPECT_THAT(dumped.out, HasSubstr("\nwarmup_share = 0.065 "));
  }
}

// Stages of a pipeline are built without data too, and find nothing wrong with what is not there.
TEST(ShippedConfigs, MissingDataIsTheOnlyMistakeOfAPipeline) {
  EXPECT_THAT(run_tessera({"config",
                           "check",
                           file_of("shakespeare"),
                           file_of("parallel/pp2"),
                           "--set",
                           "data.path=nowhere"}),
              Exits(2, "data.path: cannot read", ::testing::Not(HasSubstr("embedding"))));
}

TEST(ShippedConfigs, RefusalsAreOfConfigurationsThatExist) {
  for (const Refusal& refusal : refusals()) {
    EXPECT_TRUE(fs::exists(file_of(refusal.config))) << refusal.config;
    EXPECT_TRUE(fs::exists(file_of("parallel/" + refusal.layout))) << refusal.layout;
  }
}

}  // namespace shipped_configs_test
}  // namespace tessera::testing
