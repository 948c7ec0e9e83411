#include "tests/unit/config/config_support.hpp"

#include <algorithm>

#include "tessera/data.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/layer.hpp"
#include "tessera/optimizer.hpp"

namespace tessera::testing {
namespace {

struct Block {
  i64 hidden = 0;
  Component<Module> norm{"layernorm"};
  Component<Layer> mlp{"dense"};
  static void describe(Schema<Block>& s) {
    s.field("hidden", &Block::hidden, "width").given();
    s.slot("norm", &Block::norm, "before each part");
    s.slot("mlp", &Block::mlp, "second part");
  }
};

struct Gpt {
  i64 layers = 2, hidden = 32;
  Auto<i64> vocab;
  double dropout = 0;
  Component<Layer> block{"block"};
  std::map<std::string, Component<Layer>> blocks;
  static void describe(Schema<Gpt>& s) {
    s.field("layers", &Gpt::layers, "blocks").at_least(1).megatron("--num-layers").also("n_layer");
    s.field("hidden", &Gpt::hidden, "width").at_least(1).megatron("--hidden-size");
    s.field("vocab", &Gpt::vocab, "entries").at_least(2);
    s.field("dropout", &Gpt::dropout, "probability").at_least(0).below(1);
    s.slot("block", &Gpt::block, "each layer");
    s.variants("blocks", &Gpt::blocks, "block", "kinds of layers");
  }
};

struct LayerNorm {
  double eps = 1e-5;
  bool bias = true;
  static void describe(Schema<LayerNorm>& s) {
    s.field("eps", &LayerNorm::eps, "added to the variance").above(0).structural();
    s.field("bias", &LayerNorm::bias, "with a bias");
  }
};

struct Dense {
  i64 hidden = 0;
  i64 ffn = 0;
  std::string activation = "gelu";
  Component<Module> gate{""};
  static void describe(Schema<Dense>& s) {
    s.field("hidden", &Dense::hidden, "width").from("model.hidden");
    s.field("ffn", &Dense::ffn, "inner width").at_least(1).from("model.block.mlp.hidden");
    s.field("activation", &Dense::activation, "function").one_of({"gelu", "relu", "silu"});
    s.slot("gate", &Dense::gate, "none: no gate");
  }
};

struct Moe {
  i64 experts = 4, top_k = 2;
  std::string activation = "gelu";
  Component<TokenDispatcher> dispatcher{"allgather"};
  static void describe(Schema<Moe>& s) {
    s.field("experts", &Moe::experts, "number of experts").at_least(1);
    s.field("top_k", &Moe::top_k, "experts of a token").at_least(1);
    s.field("activation", &Moe::activation, "function").one_of({"gelu", "relu", "silu"});
    s.slot("dispatcher", &Moe::dispatcher, "how tokens travel");
  }
};

struct AllToAll {
  Auto<double> capacity;
  static void describe(Schema<AllToAll>& s) {
    s.field("capacity", &AllToAll::capacity, "tokens of an expert").above(0);
  }
};

struct Group {
  std::string match;
  double lr_scale = 1;
  static void describe(Schema<Group>& s) {
    s.field("match", &Group::match, "names of parameters").required();
    s.field("lr_scale", &Group::lr_scale, "times the rate").at_least(0);
  }
};

struct Replicated {
  double clip = 1;
  Component<UpdateRule> rule{"adamw"};
  std::map<std::string, Group> groups;
  static void describe(Schema<Replicated>& s) {
    s.field("clip", &Replicated::clip, "largest norm; 0: none").at_least(0);
    s.slot("rule", &Replicated::rule, "update of a parameter");
    s.tables("groups", &Replicated::groups, "parameters apart");
  }
};

struct Adamw {
  double beta1 = 0.9, beta2 = 0.95, weight_decay = 0.01;
  static void describe(Schema<Adamw>& s) {
    s.field("beta1", &Adamw::beta1, "decay of the first moment").at_least(0).below(1);
    s.field("beta2", &Adamw::beta2, "decay of the second moment").at_least(0).below(1);
    s.field("weight_decay", &Adamw::weight_decay, "").at_least(0);
  }
};

struct Sgd {
  double momentum = 0, weight_decay = 0;
  static void describe(Schema<Sgd>& s) {
    s.field("momentum", &Sgd::momentum, "").at_least(0).below(1);
    s.field("weight_decay", &Sgd::weight_decay, "").at_least(0);
  }
};

struct Constant {
  double peak = 1e-3;
  static void describe(Schema<Constant>& s) {
    s.field("peak", &Constant::peak, "the rate").above(0);
  }
};

struct Text {
  std::string path;
  std::vector<i64> splits = {99, 1};
  std::vector<std::string> exclude, lists;
  std::string cache = "none", copy;
  static void describe(Schema<Text>& s) {
    s.field("path", &Text::path, "file or folder of texts").is_path().required();
    s.field("splits", &Text::splits, "shares of the sets").at_least(0);
    s.field("exclude", &Text::exclude, "names left out");
    s.field("lists", &Text::lists, "files with names of texts").is_path();
    s.field("cache", &Text::cache, "folder of tokens").is_path({"none"});
    s.field("copy", &Text::copy, "another folder").is_path({"none"}).from("data.cache");
  }
};

struct Sockets {
  i64 streams = 1;
  static void describe(Schema<Sockets>& s) {
    s.field("streams", &Sockets::streams, "connections between two ranks").at_least(1);
  }
};

struct Console {
  i64 every_steps = 1;
  static void describe(Schema<Console>& s) {
    s.field("every_steps", &Console::every_steps, "steps between lines").at_least(1);
  }
};

}  // namespace

SampleCatalog::SampleCatalog() {
  infos_.reserve(32);
  add<NoConfig>("device", "cpu");
  add<Sockets>("communicator", "sockets");
  add<NoConfig>("communicator", "threads");
  add<Gpt>("model", "gpt");
  add<Block>("layer", "block");
  add<Dense>("layer", "dense");
  add<Moe>("layer", "moe");
  add<LayerNorm>("module", "layernorm");
  add<NoConfig>("dispatcher", "allgather");
  add<AllToAll>("dispatcher", "alltoall");
  add<NoConfig>("schedule", "auto");
  add<NoConfig>("graph", "none");
  add<Replicated>("optimizer", "replicated");
  add<Adamw>("rule", "adamw");
  add<Sgd>("rule", "sgd");
  add<Constant>("lr", "constant");
  add<Text>("dataset", "text");
  add<NoConfig>("tokenizer", "byte");
  add<Console>("observer", "console");
  add<NoConfig>("observer", "metrics");
  add<NoConfig>("observer", "report");
}

const ComponentInfo* SampleCatalog::find(std::string_view kind, std::string_view type) const {
  const auto found = std::ranges::find_if(
      infos_, [&](const ComponentInfo& info) { return info.kind == kind && info.type == type; });
  return found == infos_.end() ? nullptr : &*found;
}

std::vector<const ComponentInfo*> SampleCatalog::of_kind(std::string_view kind) const {
  std::vector<const ComponentInfo*> out;
  for (const ComponentInfo& info : infos_) {
    if (info.kind == kind) out.push_back(&info);
  }
  return out;
}

std::string SampleCatalog::library_of(std::string_view kind, std::string_view type) const {
  return find(kind, type) == nullptr ? "" : std::string(kind) + ".so 0.1.0";
}

std::string problems_of(const Config& config) {
  SampleCatalog catalog;
  return report(check(config, catalog).problems);
}

std::string problems_of(const std::string& text, const std::vector<std::string>& sets) {
  return problems_of(Config::parse(text, "a.toml", sets));
}

Resolved resolved(const std::string& text, const std::vector<std::string>& sets) {
  SampleCatalog catalog;
  return resolve(Config::parse(text, "a.toml", sets), catalog);
}

}  // namespace tessera::testing
