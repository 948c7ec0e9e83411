#include "kernel/plugin/host.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cfenv>
#include <fstream>
#include <functional>
#include <limits>

#include "kernel/config/config.hpp"
#include "plugin_support.hpp"
#include "tessera/data.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/observer.hpp"
#include "tessera/parallel_for.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace host_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::plugin_file;
using testing::plugin_folder;
using testing::TestFolder;

std::shared_ptr<Tokenizer> make_tokenizer(const PluginHost& host,
                                          std::string_view type,
                                          const std::string& toml) {
  TokenizerArguments arguments;
  return host.make<Tokenizer>(type, *Config::parse(toml).node(""), {}, arguments);
}

TEST(PluginHost, MakesComponentsFromTheirTables) {
  const PluginHost host({plugin_folder("good")});
  EXPECT_THAT(host.load_failures(), IsEmpty());
  const auto letters = make_tokenizer(host, "test_letters", "first = 98");
  EXPECT_THAT(letters->encode("bcd"), ElementsAre(0, 1, 2));
  EXPECT_EQ(letters->decode({2, 1}), "dc");
}

TEST(PluginHost, ObjectsOutliveTheirHost) {
  std::shared_ptr<Tokenizer> letters;
  {
    const PluginHost host({plugin_folder("good")});
    letters = make_tokenizer(host, "test_letters", "");
  }
  EXPECT_EQ(letters->decode({0}), "a");
}

TEST(PluginHost, IsTheCatalog) {
  const PluginHost host({plugin_folder("good")});
  const ComponentInfo* info = host.find("tokenizer", "test_letters");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->doc, "One id a letter.");
  EXPECT_EQ(info->fields.size(), 4U);
  EXPECT_EQ(host.find("tokenizer", "test_letter"), nullptr);
  EXPECT_EQ(host.find("tokenisers", "test_letters"), nullptr);
  ASSERT_EQ(host.of_kind("tokenizer").size(), 2U);
  EXPECT_EQ(host.of_kind("tokenizer")[0]->type, "test_faulty");
  EXPECT_THAT(host.of_kind("device"), IsEmpty());
  EXPECT_THAT(host.kinds(), ElementsAre("observer", "tokenizer"));
  EXPECT_EQ(host.library_of("tokenizer", "test_letters"), "libtessera_test_good.so 1.2.3");
  EXPECT_EQ(host.library_of("tokenizer", "none"), "");
  EXPECT_EQ(host.origin_of("tokenizer", "test_letters")->path, plugin_file("good"));
}

TEST(PluginHost, KernelsOfADeviceComeBeforeThoseOfItsKindOfMemory) {
  const PluginHost host({plugin_folder("good")});
  const auto bytes = [&](std::string_view device, std::string_view memory) {
    std::vector<std::pair<std::string, i64>> found;
    for (const Kernel& k : host.kernels(device, memory))
      found.emplace_back(k.operation, k.args_bytes);
    std::sort(found.begin(), found.end());
    return found;
  };
  using Found = std::vector<std::pair<std::string, i64>>;
  EXPECT_EQ(bytes("fast", "host"), (Found{{"test_double", 16}, {"test_triple", 8}}));
  EXPECT_EQ(bytes("cpu", "host"), (Found{{"test_double", 8}, {"test_triple", 8}}));
  EXPECT_EQ(bytes("fast", "cuda"), (Found{{"test_double", 16}})) << "its memory is not the CPU's";
  EXPECT_EQ(bytes("cuda", "cuda"), Found());
}

TEST(PluginHost, FingerprintTellsFilesApart) {
  const PluginHost good({plugin_folder("good")});
  const PluginHost again({plugin_folder("good")});
  const PluginHost stripped({plugin_folder("stripped")});
  ASSERT_EQ(good.fingerprint().size(), 1U);
  EXPECT_EQ(good.fingerprint()[0].plugin, "test_good");
  EXPECT_EQ(good.fingerprint()[0].version, "1.2.3");
  EXPECT_EQ(good.fingerprint()[0].stamp, TESSERA_ABI_STAMP);
  EXPECT_NE(good.fingerprint()[0].hash, 0U);
  EXPECT_EQ(good.fingerprint(), again.fingerprint());
  EXPECT_NE(good.fingerprint(), stripped.fingerprint());
}

TEST(PluginHost, StrippedPluginsLoad) {
  const PluginHost host({plugin_folder("stripped")});
  EXPECT_THAT(host.load_failures(), IsEmpty());
  EXPECT_NE(host.find("tokenizer", "test_letters"), nullptr);
}

// --- which files ---

TEST(PluginHost, OfFilesOfOneNameTheFirstWins) {
  const TestFolder first, second;
  const std::string name = "libtessera_test_good.so";
  fs::copy_file(plugin_file("stripped"), first.path() / name);
  fs::copy_file(plugin_file("good"), second.path() / name);
  const PluginHost host({first.path(), second.path()});
  EXPECT_EQ(host.origin_of("tokenizer", "test_letters")->path, first.path() / name);
  EXPECT_THAT(host.shadowed(),
              ElementsAre((second.path() / name).string() +
                          " is not used: " + (first.path() / name).string() + " comes first"));
}

TEST(PluginHost, OneFileUnderTwoNamesIsOneLibrary) {
  const TestFolder folder;
  fs::create_symlink(plugin_file("good"), folder.path() / "liba.so");
  fs::create_symlink("liba.so", folder.path() / "libb.so");
  const PluginHost host({folder.path(), plugin_folder("good")});
  EXPECT_EQ(host.plugins().size(), 1U);
  EXPECT_THAT(host.load_failures(), IsEmpty());
  EXPECT_THAT(host.shadowed(), IsEmpty());
}

TEST(PluginHost, OtherFilesAreNotLookedAt) {
  const TestFolder folder;
  std::ofstream(folder.path() / "README.md") << "text";
  std::ofstream(folder.path() / "libx.so.1") << "text";
  const PluginHost host({folder.path()});
  EXPECT_THAT(host.load_failures(), IsEmpty());
}

TEST(PluginHost, AFolderMustExist) {
  EXPECT_THROW(PluginHost({fs::path("/nonexistent/folder")}), ConfigError);
}

// --- two that bring the same ---

std::string construction_error(std::vector<fs::path> search) {
  return testing::error_of<ConfigError>([&] { const PluginHost host(std::move(search)); });
}

TEST(PluginHost, ADuplicateNamesBothFiles) {
  const std::string text = construction_error({plugin_folder("good"), plugin_folder("duplicate")});
  EXPECT_EQ(text,
            "plugin error: tokenizer/test_letters comes from both " + plugin_file("good").string() +
                " and " + plugin_file("duplicate").string() + "; remove one of the two files");
}

class BuiltinLetters : public Tokenizer {
 public:
  using Config = NoConfig;
  BuiltinLetters(const Config&, TokenizerArguments&) {}
  i64 do_vocabulary() const override { return 1; }
  std::string do_fingerprint() const override { return "builtin"; }
  std::vector<i32> do_encode(std::string_view) const override { fail("nothing to encode"); }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
};
void register_builtin(Registrar& registrar) {
  registrar.add<Tokenizer, BuiltinLetters>("test_builtin", "In the kernel.");
}
void register_clash(Registrar& registrar) {
  registrar.add<Tokenizer, BuiltinLetters>("test_letters", "In the kernel.");
}

TEST(PluginHost, TheKernelsOwnComponents) {
  PluginHost host({plugin_folder("good")});
  host.add_builtin(&register_builtin);
  EXPECT_EQ(host.library_of("tokenizer", "test_builtin"), "kernel");
  EXPECT_EQ(make_tokenizer(host, "test_builtin", "")->vocabulary(), 1);
  EXPECT_EQ(host.fingerprint().size(), 1U) << "the program is not a plugin";
  EXPECT_THAT(testing::error_of<ConfigError>([&] { host.add_builtin(&register_clash); }),
              HasSubstr("comes from both " + plugin_file("good").string() + " and the kernel"));
}

// --- errors of the plugin's own code ---

TEST(PluginHost, ErrorsOfFactoriesNameThePlugin) {
  const PluginHost host({plugin_folder("good")});
  const std::string where = "\n  in tokenizer/test_faulty of plugin test_good 1.2.3 (" +
                            plugin_file("good").string() + "), configured by default: []";
  const auto thrown = [&](const std::string& how) -> std::pair<std::string, int> {
    try {
      make_tokenizer(host, "test_faulty", "how = \"" + how + "\"");
    } catch (const Error& error) {
      EXPECT_EQ(dynamic_cast<const ConfigError*>(&error) != nullptr, how == "config");
      return {error.what(), error.exit_code()};
    }
    return {"no error", 0};
  };
  using Thrown = std::pair<std::string, int>;
  EXPECT_EQ(thrown("error"), (Thrown{"the tokenizer is faulty" + where, 1}));
  EXPECT_EQ(thrown("config"), (Thrown{"how = \"config\" is faulty" + where, 2}));
  EXPECT_EQ(thrown("standard"), (Thrown{"faulty index" + where, 1}));
  EXPECT_EQ(thrown("foreign"), (Thrown{"an exception that is not a std::exception" + where, 1}));
}

TEST(PluginHost, TheInnermostComponentIsNamedOnce) {
  const PluginHost host({plugin_folder("good")});
  std::function<void()> child = [&] { make_tokenizer(host, "test_faulty", "how = \"config\""); };
  ObserverArguments arguments;
  arguments.out = std::to_string(reinterpret_cast<std::uintptr_t>(&child));
  EXPECT_EQ(testing::error_of<ConfigError>([&] {
              host.make<Observer>("test_parent", *Config::parse("").node(""), {}, arguments);
            }),
            "how = \"config\" is faulty\n  in tokenizer/test_faulty of plugin test_good 1.2.3 (" +
                plugin_file("good").string() + "), configured by default: []");
}

// What a call changes of the thread's floating-point control is undone after it, and told once.
TEST(PluginHost, ACallThatChangesTheRoundingIsNamed) {
  const PluginHost host({plugin_folder("rounding")});
  volatile float smallest = std::numeric_limits<float>::min();
  const auto warned_by = [&](const std::function<void()>& call) {
    ::testing::internal::CaptureStderr();
    call();
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    EXPECT_GT(smallest / 4, 0) << "denormal numbers are flushed";
    return ::testing::internal::GetCapturedStderr();
  };
  std::shared_ptr<Tokenizer> tokenizer;
  EXPECT_THAT(warned_by([&] { tokenizer = make_tokenizer(host, "test_rounding", ""); }),
              HasSubstr("test_rounding (tokenizer/test_rounding): changed how floating-point "
                        "numbers are rounded and left it so; that was undone after the call"));
  EXPECT_THAT(warned_by([&] { (void)tokenizer->encode("a"); }),
              HasSubstr("tokenizer/test_rounding of plugin test_rounding 0.1 (encode): changed how "
                        "floating-point numbers are rounded"));
  EXPECT_EQ(warned_by([&] { (void)tokenizer->encode("a"); }), "") << "told once";
  warned_by([&] { EXPECT_THROW((void)tokenizer->decode({1}), Error); });
  const std::vector<Kernel> kernels = host.kernels("reference", kHostMemory);
  ASSERT_EQ(kernels.size(), 2U);
  HostDevice device("host_test", {}, kernels);
  const TensorArg out;
  EXPECT_THAT(warned_by([&] { kernels[0].launch(&out, nullptr, device.stream()); }),
              HasSubstr("a kernel of libtessera_test_rounding.so 0.1, operation \"test_rounding\": "
                        "changed how floating-point numbers are rounded"));
#ifndef __SANITIZE_THREAD__  // loops run on one thread there
  const ParallelThreads two(2);
  EXPECT_THAT(warned_by([&] { kernels[1].launch(&out, nullptr, device.stream()); }),
              HasSubstr("operation \"test_worker_rounding\": changed how floating-point numbers "
                        "are rounded"));
#endif
}

TEST(PluginHost, AnUnknownNameShowsWhatThereIsAndWhatFailed) {
  const TestFolder folder;
  std::ofstream(folder.path() / "libbroken.so") << "text";
  const PluginHost host({plugin_folder("good"), folder.path()});
  EXPECT_EQ(testing::error_of<ConfigError>([&] { make_tokenizer(host, "bpe", ""); }),
            "there is no tokenizer \"bpe\"; known are: test_faulty "
            "(libtessera_test_good.so 1.2.3), test_letters (libtessera_test_good.so 1.2.3)\n"
            "  not loaded: " +
                (folder.path() / "libbroken.so").string() +
                ": is not a shared library (not an ELF file)");
}

}  // namespace host_test
}  // namespace tessera
