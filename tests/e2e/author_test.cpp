// What the author of a plugin meets before it runs: `tessera new`, and the compiler's error.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "program_support.hpp"

namespace tessera {
namespace author_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::run_tessera;
using testing::TestFolder;

const fs::path kTemplates = TESSERA_BUILD_DIR "/share/tessera/templates";

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kTemplates)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

TEST(New, IsThereForEachKindThatAuthorsWrite) {
  EXPECT_THAT(kinds(),
              ::testing::ElementsAre("communicator",
                                     "converter",
                                     "dataset",
                                     "device",
                                     "dispatcher",
                                     "document_stage",
                                     "evaluation",
                                     "graph",
                                     "layer",
                                     "lr",
                                     "matrix_rule",
                                     "model",
                                     "module",
                                     "observer",
                                     "operation",
                                     "optimizer",
                                     "router",
                                     "rule",
                                     "schedule",
                                     "tokenizer",
                                     "tokenizer_trainer"));
}

TEST(New, TheTemplatesAreTheExamples) {
  const TestFolder folder;
  for (const std::string& kind : kinds()) {
    const fs::path example = TESSERA_SOURCE_DIR "/examples/plugin_" + kind;
    std::string name;
    for (const auto& entry : fs::directory_iterator(example)) {
      if (entry.path().extension() == ".toml") name = entry.path().stem();
    }
    EXPECT_THAT(run_tessera({"new", kind, name, "--into", folder.path() / "deep/down"}),
                Prints(0, "ctest --test-dir build"));
    EXPECT_THAT(run_process({"diff", "-r", example, folder.path() / "deep/down" / name}),
                Prints(0, ::testing::StrEq("")));
  }
}

TEST(New, NamesAreReplacedAndWordsAreNot) {
  const TestFolder folder;
  const ProcessResult result =
      run_tessera({"new", "rule", "two_words", "--into", folder.path().string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const fs::path made = folder.path() / "two_words";
  EXPECT_TRUE(fs::is_regular_file(made / "two_words.cpp"));
  EXPECT_TRUE(fs::is_regular_file(made / "two_words.toml"));
  const std::string source = testing::read_file(made / "two_words.cpp");
  EXPECT_THAT(source, HasSubstr("class TwoWords final : public UpdateRule"));
  EXPECT_THAT(source, HasSubstr("struct TwoWordsArgs {"));
  EXPECT_THAT(source, HasSubstr("kName = \"example.two_words\""));
  EXPECT_THAT(testing::read_file(made / "two_words.toml"), HasSubstr("type = \"two_words\""));
  for (const auto& entry : fs::directory_iterator(made)) {
    const std::string text = testing::read_file(entry.path());
    for (const char* old : {"signum", "Signum"}) {
      EXPECT_EQ(text.find(old), std::string::npos) << entry.path();
    }
  }
}

TEST(New, RefusesWhatItCannotWrite) {
  const TestFolder folder;
  const auto refused = [&](const std::string& kind, const std::string& name) {
    const ProcessResult result = run_tessera({"new", kind, name, "--into", folder.path().string()});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(fs::is_empty(folder.path()));
    return result.err;
  };
  EXPECT_THAT(refused("layers", "mine"),
              HasSubstr("there is no template for a plugin of kind \"layers\": did you mean "
                        "\"layer\"?; there is one for each of communicator, converter, "));
  for (const std::string name : {"Mine", "2nd", "my-layer", "", "_x", "../x"}) {
    EXPECT_THAT(refused("layer", name),
                HasSubstr("is not a valid name for a plugin: use a-z, 0-9 and _"));
  }
  EXPECT_THAT(refused("layer", "mlp"), HasSubstr("there is a plugin \"mlp\" already, "));
  EXPECT_THAT(
      refused("layer", "test"),
      HasSubstr(
          "\"test\" is not a valid name for a plugin of kind layer: two of its files would be "
          "test.cpp"));
  EXPECT_THAT(refused("graph", "auto"), HasSubstr("a configuration means something else by it"));
  EXPECT_THAT(refused("layer", std::string(300, 'a')),
              HasSubstr("the name of a plugin has at most 64 letters, and this one has 300"));
  folder.write("mine/notes.txt", "kept");
  EXPECT_THAT(run_tessera({"new", "layer", "mine", "--into", folder.path().string()}),
              Exits(2, "mine exists already: nothing was written"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "mine"), {}), 1);
}

TEST(New, CommandsThatItPrintsAreQuoted) {
  const TestFolder folder;
  const fs::path into = folder.path() / "it's with space";
  const ProcessResult result = run_tessera({"new", "layer", "my_mlp", "--into", into});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::size_t at = result.out.find("  cd ");
  ASSERT_NE(at, std::string::npos) << result.out;
  const std::string cd = result.out.substr(at, result.out.find('\n', at) - at);
  const ProcessResult shell = run_process({"sh", "-c", cd + " && pwd"});
  EXPECT_EQ(shell.out, (into / "my_mlp").string() + "\n") << shell.err;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::minutes kLimit{75};
#else
constexpr std::chrono::minutes kLimit{15};
#endif

// Under names of their own, so that nothing of a project rests on the example's. In a place that
// stays: a compiler cache knows it.
TEST(New, EachKindBuildsPassesItsTestAndTrainsInEveryLayout) {
  const fs::path folder = TESSERA_BUILD_DIR "/tests/new", projects = folder / "projects";
  fs::remove_all(folder);
  const ProcessResult all = run_process({TESSERA_SOURCE_DIR "/examples/run_plugins.sh",
                                         "--build",
                                         TESSERA_BUILD_DIR,
                                         "--work",
                                         folder,
                                         "--names",
                                         "own_"},
                                        {},
                                        kLimit);
  ASSERT_THAT(all, Prints(0, "all plugins work")) << all.err;

  ProcessOptions options;
  options.folder = projects;
  options.environment = testing::compiler_variables();
  const auto run = [&](std::vector<std::string> command) {
    const ProcessResult result = run_process(std::move(command), options);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.exit_code == 0;
  };
  const std::string prefix = folder / "prefix", program = prefix + "/bin/tessera";
  std::vector<std::string> keys = {program, "config", "keys", "--markdown"};
  for (const std::string& kind : kinds()) {
    keys.insert(keys.end(), {"--path", "own_" + kind + "/build/plugins"});
  }
  const ProcessResult page = run_process(keys, options);
  EXPECT_THAT(page.out, HasSubstr("type = \"own_lr\""));
  EXPECT_THAT(testing::unbounded_integers(page.out), ::testing::IsEmpty());
  for (const std::string& kind : kinds()) {
    if (kind == "document_stage" || kind == "tokenizer_trainer") continue;  // no run's keys
    run({program, "config", "check", "own_" + kind + "/own_" + kind + ".toml"});
  }
  // One alone, as its page says: the build of all has done what a project forgets to do.
  ASSERT_TRUE(run({program, "new", "tokenizer", "alone"}));
  options.folder = projects / "alone";
  ASSERT_TRUE(run({"cmake", "-B", "build", "-G", "Ninja", "-DCMAKE_PREFIX_PATH=" + prefix}));
  ASSERT_TRUE(run({"cmake", "--build", "build"}));
  ASSERT_TRUE(run({"ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error"}));
  ASSERT_TRUE(run({program, "train", "alone.toml", "--set", "run.steps=2"}));
}

// The rule is made, and its operation is looked up, before anything is known of its kernels.
TEST(ConfigCheck, FindsARuleWithoutAKernelOnTheDevice) {
  const TestFolder folder;
  const std::string file =
      folder.write("run.toml",
                   "schema = 1\n[run]\nsteps = 2\n[plugins]\npath = [\"" TESSERA_BUILD_DIR
                   "/tests/plugins/rule_without_kernel\"]\n"
                   "[batch]\nglobal = 2\nmicro = 1\nsequence_length = 8\n"
                   "[model]\ntype = \"gpt\"\nlayers = 1\nhidden = 16\nheads = 2\n"
                   "[optimizer.rule]\ntype = \"test_halve\"\n[lr]\npeak = 1e-3\n"
                   "[data]\ntype = \"text\"\npath = \"" TESSERA_SOURCE_DIR "/LICENSE\"\n");
  EXPECT_THAT(run_tessera({"config", "check", file}),
              Exits(2,
                    "run.toml:16:8: [optimizer.rule] type = \"test_halve\": the device \"cpu\" has "
                    "no operation \"test.halve\""));
}

std::vector<std::string> compiler() {
  return {testing::cached("CMAKE_CXX_COMPILER"),
          "-std=c++20",
          "-I" TESSERA_SOURCE_DIR "/sdk/include",
          "-I" TESSERA_BUILD_DIR "/generated"};
}

// What the fixture includes, precompiled once for all mistakes.
const std::string& precompiled_headers() {
  static const TestFolder folder;
  static const std::string file = [] {
    std::string header = folder.write("headers.hpp",
                                      "#include \"tessera/data.hpp\"\n"
                                      "#include \"tessera/operation.hpp\"\n"
                                      "#include \"tessera/plugin.hpp\"\n");
    std::vector<std::string> command = compiler();
    command.insert(command.end(), {"-x", "c++-header", header, "-o", header + ".gch"});
    EXPECT_EQ(run_process(command).exit_code, 0);
    return header;
  }();
  return file;
}

// The lines of the compiler's output that are errors.
std::vector<std::string> errors_of(const std::vector<std::string>& definitions) {
  std::vector<std::string> command = compiler();
  command.insert(command.end(),
                 {"-include",
                  precompiled_headers(),
                  "-fsyntax-only",
                  TESSERA_SOURCE_DIR "/tests/e2e/fixtures/wrong_component.cpp"});
  for (const std::string& definition : definitions) command.push_back("-D" + definition);
  const ProcessResult result = run_process(command);
  std::vector<std::string> errors;
  std::istringstream lines(result.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error: ") != std::string::npos) errors.push_back(line);
  }
  EXPECT_EQ(result.exit_code == 0, errors.empty()) << result.err;
  return errors;
}

TEST(WrongComponent, IsNoneWhereEachMemberIsRight) {
  for (const std::string right : {"with_field", "with_slot", "with_tables", "with_variants"}) {
    EXPECT_THAT(errors_of({"MISTAKE=" + right}), ::testing::IsEmpty());
  }
}

// One error and no other: what follows from the mistake is not compiled.
TEST(WrongComponent, IsOneSentence) {
  const auto is_only = [](const std::vector<std::string>& definitions, const char* sentence) {
    EXPECT_THAT(errors_of(definitions), ::testing::ElementsAre(HasSubstr(sentence)))
        << ::testing::PrintToString(definitions);
  };
  const std::vector<std::pair<std::string, const char*>> classes = {
      {"no_constructor", "T needs a public constructor `T(const Config&, Arguments&)`"},
      {"no_config", "T needs a public nested `struct Config`, or `using Config = NoConfig;`"},
      {"no_default", "T::Config must be default constructible"},
      {"no_describe", "T::Config needs `static void describe(Schema<Config>& s)`"},
      {"no_decode", "T leaves a pure virtual function of Kind without an override"},
      {"another_kind", "T must derive publicly from Kind"},
      {"private_kind", "T must derive publicly from Kind"},
      {"nothing", "T must derive publicly from Kind"},
  };
  for (const auto& [mistake, sentence] : classes) is_only({"MISTAKE=" + mistake}, sentence);
  for (const std::string kind : {"int", "another_kind"}) {
    is_only({"MISTAKE=another_kind", "KIND=" + kind},
            "add<Kind, T>: Kind must be an interface of the SDK");
  }
  for (const std::string field : {"float",
                                  "char",
                                  "const i64",
                                  "std::vector<float>",
                                  "std::vector<std::vector<i64>>",
                                  "Auto<float>",
                                  "Component<Tokenizer>"}) {
    is_only({"MISTAKE=with_field", "FIELD=" + field},
            "Schema::field: a key is bool, an integer, double (not float)");
  }
  for (const std::string slot : {"Component<int>", "std::string", "std::shared_ptr<Tokenizer>"}) {
    is_only({"MISTAKE=with_slot", "SLOT=" + slot},
            "Schema::slot: the member must be a Component<K>, and its K an interface of the SDK");
  }
  for (const std::string tables : {"std::map<std::string,i64>", "Size"}) {
    is_only({"MISTAKE=with_tables", "TABLES=" + tables},
            "Schema::tables: the member must be a std::map<std::string, Struct>");
  }
  for (const std::string variants :
       {"std::map<std::string,Component<int>>", "std::map<std::string,Size>"}) {
    is_only({"MISTAKE=with_variants", "VARIANTS=" + variants},
            "Schema::variants: the member must be a std::map<std::string, Component<K>>");
  }
  is_only({"NAME=kTitle"},
          "an operation's arguments need `static constexpr std::string_view kName`");
  is_only({"COUNT=kResults"},
          "an operation's arguments need `static constexpr int kTensors, kOutputs`");
  is_only({"INFER=deduce"},
          "an operation's arguments need a public `static void infer(Args& args)`");
  is_only({"CONSTANT=std::string"},
          "an operation's arguments must be a standard-layout, trivially copyable struct");
  is_only({"TENSORS=3"}, "kTensors: more tensors than the arguments begin with");
  is_only({"OUTPUTS=3"}, "kOutputs: the last of the tensors, so not more than kTensors");
}

}  // namespace author_test
}  // namespace tessera
