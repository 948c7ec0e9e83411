#include "kernel/config/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "kernel/config/run_config.hpp"

namespace tessera {
namespace {

// Flags that are no key of the same meaning, and short names.
constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"accumulate-allreduce-grads-in-fp32",
     "is what parallel.gradient_dtype does here, unless it is \"bf16\""},
    {"calculate-per-token-loss", "is always on here"},
    {"check-for-spiky-loss", "is check.loss_rise here"},
    {"ckpt-format", "is not needed: every checkpoint loads under every layout"},
    {"ckpt-fully-parallel-save", "is always on here"},
    {"ckpt-step", "is checkpoint.resume = \".../step-N\" here"},
    {"cp", "is parallel.context here"},
    {"cpu-offloading", "is not there yet"},
    {"cuda-graph-impl", "is graph.type here"},
    {"cuda-graph-modules", "is graph.scope here"},
    {"data-parallel-sharding-strategy",
     "is not there: only optimizer state is sharded (optimizer.type)"},
    {"decoupled-lr", "is lr_scale of a group in [optimizer.groups] here"},
    {"delay-wgrad-compute",
     "is schedule.type = \"zb_h1\" or \"zbv\" here, without schedule.overlap"},
    {"deterministic-mode", "is always on here"},
    {"dp", "is parallel.data here"},
    {"eod-mask-loss", "is not there yet"},
    {"ep", "is parallel.expert here"},
    {"etp", "is parallel.expert_tensor here"},
    {"eval-iters", "is validation.samples here: windows, not batches"},
    {"exit-duration-in-mins", "is not there: SIGUSR1 or SIGTERM saves and ends a run"},
    {"exit-interval", "is not there: run.steps may be raised later, with lr.decay_steps set"},
    {"exit-signal-handler", "is always on here"},
    {"exp-avg-sq-dtype", "is optimizer.state_dtype here, which is that of all moments"},
    {"fp8-format", "is not there yet"},
    {"full-validation", "is validation.samples = 0 here"},
    {"group-query-attention", "is model.block.attention.kv_heads here"},
    {"kv-channels", "is hidden / heads here"},
    {"lion-beta1", "is optimizer.rule.beta1 here, of type = \"lion\""},
    {"lion-beta2", "is optimizer.rule.beta2 here, of type = \"lion\""},
    {"load", "is checkpoint.resume or checkpoint.init_from here"},
    {"log-throughput", "is always on here, in metrics.jsonl and report.html"},
    {"lr-decay-style", "is lr.type here"},
    {"lr-warmup-fraction", "is lr.warmup_steps here, in steps"},
    {"lr-warmup-init", "is not there: a warm-up starts at 0"},
    {"lr-wsd-decay-iters", "is not there yet"},
    {"main-grads-dtype", "is precision.main here"},
    {"main-params-dtype", "is precision.main here"},
    {"merge-file", "is tokenizer.path here, the folder of both files"},
    {"mock-data", "is not there yet"},
    {"moe-grouped-gemm", "is always on here"},
    {"moe-router-dtype",
     "is not there: scores and weights are FP32, logits have precision.compute"},
    {"moe-router-enable-expert-bias", "is model.block.mlp.router.bias_rate above 0 here"},
    {"moe-router-load-balancing-type",
     "is the name of the coefficient in [model.block.mlp] here: microbatch_loss for aux_loss, "
     "sequence_loss for seq_aux_loss, global_loss for global_aux_loss"},
    {"moe-router-pre-softmax", "is model.block.mlp.router.score = \"softmax_before\" here"},
    {"mtp-num-layers", "is not there yet"},
    {"multi-latent-attention", "is not there yet"},
    {"no-check-for-nan-in-loss-and-grad",
     "is not there: losses are always checked (check.on_bad_step)"},
    {"no-load-optim", "is checkpoint.init_from here, which begins at step 0"},
    {"no-load-rng", "is not needed: random numbers follow from run.seed"},
    {"no-overlap-p2p-communication", "is not there: exchanges are actions of the plan"},
    {"no-save-optim", "is not there: `tessera checkpoint export` writes the parameters only"},
    {"nproc-per-node", "follows from [parallel] here: train starts the ranks itself"},
    {"num-layers-per-virtual-pipeline-stage", "follows from schedule.chunks here"},
    {"optimizer", "is optimizer.rule.type here"},
    {"optimizer-cpu-offload", "is not there yet"},
    {"overlap-grad-reduce", "is always on here"},
    {"overlap-param-gather", "is always on with optimizer.type = \"distributed\" here"},
    {"position-embedding-type", "is not there yet: positions are learned"},
    {"pp", "is parallel.pipeline here"},
    {"pretrained-checkpoint", "is checkpoint.init_from here"},
    {"profile-step-end", "is the second of observers.trace.steps here"},
    {"profile-step-start", "is the first of observers.trace.steps here"},
    {"qk-layernorm", "is not there yet"},
    {"rampup-batch-size", "is not there yet"},
    {"recompute-activations", "is recompute.mode = \"selective\" here"},
    {"recompute-method", "is not there: recompute.mode and recompute.scopes are for all blocks"},
    {"recompute-num-layers",
     "is not there: recompute.mode and recompute.scopes are for all blocks"},
    {"reset-position-ids", "is not there yet"},
    {"save-retain-interval", "is not there yet"},
    {"spec", "is a component's type here, and its slots"},
    {"split", "is data.validation here, the share that is held out"},
    {"start-weight-decay", "is not there yet"},
    {"swiglu", "is activation of [model.block.mlp] type = \"moe\" here, and only there"},
    {"tensorboard-dir", "is not needed: run.out gets metrics.jsonl and report.html"},
    {"tokenizer-model", "is not there: tokenizer.path is the folder of GPT-2's vocabulary"},
    {"tp", "is parallel.tensor here"},
    {"tp-comm-overlap", "is not there yet"},
    {"train-data-path", "is data.path here, of text files"},
    {"train-samples", "is run.steps × batch.global here"},
    {"use-distributed-optimizer", "is optimizer.type = \"distributed\" here"},
    {"use-flash-attn", "is always on here"},
    {"use-precision-aware-optimizer", "is optimizer.state_dtype here"},
    {"use-rotary-position-embeddings", "is not there yet: positions are learned"},
    {"use-torch-fsdp2", "is not there: only optimizer state is sharded (optimizer.type)"},
    {"use-tp-pp-dp-mapping", "is parallel.order = \"tp-cp-ep-pp-dp\" here"},
    {"valid-data-path", "is data.validation here, a share of data.path"},
    {"wandb-project", "is not there: an observer of yours can do it (examples/plugin_observer)"},
    {"window-size", "is not there yet"},
};

// What other programs that train call a key: Hugging Face's configurations and trainer, nanoGPT.
constexpr std::pair<std::string_view, std::string_view> kForeign[] = {
    {"batch-size", "is batch.global here, of a step, or batch.micro, of one pass of a replica"},
    {"block-size", "is batch.sequence_length here"},
    {"d-model", "is model.hidden here"},
    {"epochs", "is run.steps here"},
    {"ffn-dim", "is model.block.mlp.ffn here"},
    {"gradient-accumulation-steps", "follows from batch.global and batch.micro here"},
    {"hidden-dim", "is model.hidden here"},
    {"intermediate-size", "is model.block.mlp.ffn here"},
    {"learning-rate", "is lr.peak here"},
    {"max-grad-norm", "is optimizer.clip here"},
    {"max-iters", "is run.steps here"},
    {"max-steps", "is run.steps here"},
    {"n-embd", "is model.hidden here"},
    {"n-head", "is model.heads here"},
    {"n-layer", "is model.layers here"},
    {"n-positions", "is batch.sequence_length here"},
    {"num-hidden-layers", "is model.layers here"},
    {"num-key-value-heads", "is model.block.attention.kv_heads here"},
    {"num-train-epochs", "is run.steps here"},
    {"per-device-train-batch-size", "is batch.micro here"},
    {"seq-len", "is batch.sequence_length here"},
    {"warmup-iters", "is lr.warmup_steps here"},
    {"world-size", "follows from [parallel] here"},
};

std::string initial_text(const FieldSpec& field) {
  if (field.given) return "set by the parent";
  if (!field.from.empty()) return "from " + field.from;
  if (field.type == FieldType::tables || field.type == FieldType::variants) return "none";
  return field.initial ? field.initial->text() : "required";
}

void add_rows(std::vector<KeyRow>& rows, const std::string& prefix, const FieldSpec& field) {
  const std::string name = prefix + field.name + (field.type == FieldType::variants ? ".NAME" : "");
  rows.push_back({name,
                  field.type_text(),
                  initial_text(field),
                  field.doc,
                  field.megatron,
                  field.structural,
                  field.variants_of});
  for (const FieldSpec& inner : field.table_fields) add_rows(rows, name + ".NAME.", inner);
}

// Walks slots from the root sections down and gives every component its places.
class Walk {
 public:
  explicit Walk(const Catalog& catalog) : catalog_(catalog) {}

  std::vector<KeyTable> run() {
    for (const RootSection& section : root_sections()) {
      tables_.push_back({section.name, {}, "", "", true, section.doc, own_rows(section)});
      if (section.kind.empty()) continue;
      if (section.each) {
        for (const ComponentInfo* info : catalog_.of_kind(section.kind)) {
          place(join_path(section.name, info->type), *info, true);
        }
        continue;
      }
      slot(section.name, section.kind, section.default_type);
    }
    // What no slot has by default may stand in each of its kind.
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto [path, kind] = slots_[i];
      for (const ComponentInfo* info : catalog_.of_kind(kind)) {
        if (!known(*info)) place(likely_slot(*info), *info, false);
      }
    }
    std::ranges::stable_sort(tables_, {}, [this](const KeyTable& table) { return order(table); });
    return std::move(tables_);
  }

 private:
  std::vector<KeyRow> own_rows(const RootSection& section) const {
    std::vector<KeyRow> rows;
    if (!section.kind.empty()) {
      const std::string name = section.each ? "NAME.type" : "type";
      rows.push_back({name,
                      fmt::format("{} plugin", section.kind),
                      section.each ? "NAME" : Value(section.default_type).text(),
                      section.each ? "the component; \"none\": it is off"
                                   : "the component; its keys are in this table too",
                      section.megatron,
                      section.structural});
    }
    for (KeyRow& row : key_rows(section.fields)) rows.push_back(std::move(row));
    return rows;
  }

  bool known(const ComponentInfo& info) const {
    return std::ranges::any_of(tables_, [&](const KeyTable& table) {
      return table.kind == info.kind && table.type == info.type;
    });
  }

  // The slot of its kind whose default component has most keys in common with it.
  std::string likely_slot(const ComponentInfo& info) const {
    const auto in_common = [&](const std::string& path) {
      const auto holds = [&](const KeyTable& table) {
        return table.initial && table.kind == info.kind &&
               (table.path == path || std::ranges::count(table.also, path) > 0);
      };
      const auto table = std::ranges::find_if(tables_, holds);
      if (table == tables_.end()) return std::ptrdiff_t{0};
      return std::ranges::count_if(info.fields, [&](const FieldSpec& field) {
        return std::ranges::count(table->rows, field.name, &KeyRow::name) > 0;
      });
    };
    const std::string* best = nullptr;
    for (const auto& [path, kind] : slots_) {
      if (kind != info.kind) continue;
      if (best == nullptr || in_common(path) > in_common(*best)) best = &path;
    }
    return *best;
  }

  void slot(const std::string& path, const std::string& kind, const std::string& type) {
    slots_.emplace_back(path, kind);
    if (const ComponentInfo* info = catalog_.find(kind, type)) place(path, *info, true);
  }

  void place(const std::string& path, const ComponentInfo& info, bool initial) {
    if (std::ranges::count(path, '.') > kDeepestSlot) return;  // slots in slots without end
    const auto found = std::ranges::find_if(tables_, [&](const KeyTable& table) {
      return table.kind == info.kind && table.type == info.type;
    });
    if (found != tables_.end()) {
      // Two optimizers have their rule in one place.
      if (path != found->path && std::ranges::count(found->also, path) == 0) {
        found->also.push_back(path);
      }
    } else {
      KeyTable table{path, {}, info.kind, info.type, initial, info.doc, key_rows(info.fields)};
      for (KeyRow& row : table.rows) {
        const auto field = std::ranges::find(info.fields, row.name, &FieldSpec::name);
        if (field != info.fields.end() && field->type == FieldType::component) row.name += ".type";
      }
      tables_.push_back(std::move(table));
    }
    for (const FieldSpec& field : info.fields) {
      if (field.type != FieldType::component) continue;
      const auto* type = field.initial ? std::get_if<std::string>(&field.initial->data) : nullptr;
      slot(join_path(path, field.name), field.component_kind, type == nullptr ? "" : *type);
    }
  }

  // A section, the component that it has by default, the others; then the tables in it.
  std::tuple<std::size_t, std::size_t, int> order(const KeyTable& table) const {
    const std::string_view root = std::string_view(table.path).substr(0, table.path.find('.'));
    const auto section = std::ranges::find(root_sections(), root, &RootSection::name);
    const auto place = std::ranges::find(
        slots_, table.path, [](const auto& slot) -> const std::string& { return slot.first; });
    return {static_cast<std::size_t>(section - root_sections().begin()),
            place == slots_.end() ? 0 : static_cast<std::size_t>(place - slots_.begin()),
            table.kind.empty() ? 0
            : table.initial    ? 1
                               : 2};
  }

  static constexpr int kDeepestSlot = 8;
  const Catalog& catalog_;
  std::vector<KeyTable> tables_;
  std::vector<std::pair<std::string, std::string>> slots_;  // path, kind; in the order of finding
};

}  // namespace

std::vector<KeyRow> key_rows(const std::vector<FieldSpec>& fields) {
  std::vector<KeyRow> rows;
  for (const FieldSpec& field : fields) add_rows(rows, "", field);
  return rows;
}

std::vector<KeyTable> key_tables(const Catalog& catalog) { return Walk(catalog).run(); }

KeysByFlag keys_by_flag(const std::vector<KeyTable>& tables) {
  KeysByFlag out;
  for (const KeyTable& table : tables) {
    for (const KeyRow& row : table.rows) {
      std::istringstream flags(row.megatron);
      for (std::string flag; flags >> flag;) {
        std::vector<std::string>& keys = out[flag];
        const auto add = [&](const std::string& place) {
          std::string path = join_path(place, row.name);
          if (std::ranges::find(keys, path) == keys.end()) keys.push_back(std::move(path));
        };
        add(table.path);
        std::ranges::for_each(table.also, add);
      }
    }
  }
  return out;
}

static std::string flag_of(std::string_view name) {
  std::string flag(name);
  std::ranges::replace(flag, '_', '-');
  return flag.starts_with("--") ? flag : "--" + flag;
}

std::vector<std::string> keys_of_flag(const KeysByFlag& flags, std::string_view name) {
  const auto found = flags.find(flag_of(name));
  return found == flags.end() ? std::vector<std::string>() : found->second;
}

std::string flag_hint(const KeysByFlag& flags, std::string_view name) {
  const std::string flag = flag_of(name);
  const auto found = flags.find(flag);
  if (found == flags.end()) {
    const std::string_view word = std::string_view(flag).substr(2);
    const auto first = [](const auto& of) { return of.first; };
    const auto* foreign = std::ranges::find(kForeign, word, first);
    if (foreign != std::end(kForeign)) return fmt::format("{} {}", name, foreign->second);
    const auto* other = std::ranges::find(kOthers, word, first);
    if (other == std::end(kOthers)) return "";
    const bool is_short = word.size() <= 3;
    return fmt::format(
        "{} {}", is_short ? std::string(word) : "Megatron-LM's " + flag, other->second);
  }
  return fmt::format("Megatron-LM's {} is {} here", flag, fmt::join(found->second, " or "));
}

}  // namespace tessera
