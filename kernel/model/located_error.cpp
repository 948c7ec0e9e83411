#include "kernel/model/located_error.hpp"

#include <utility>

#include "kernel/model/build_context.hpp"

namespace tessera {

namespace {

class LocatedModule final : public Module {
 public:
  LocatedModule(std::shared_ptr<Module> module, std::string where)
      : module_(std::move(module)), where_(std::move(where)) {}
  Tensor operator()(Context& cx, const Tensor& x) const override {
    const ErrorHandlerScope recording(cx.tape, &in_backward_);
    try {
      return (*module_)(cx, x);
    } catch (...) {
      rethrow_located(where_);
    }
  }

 private:
  std::shared_ptr<Module> module_;
  std::string where_;
  Tape::ErrorHandler in_backward_{[this] { rethrow_located(where_ + ": backward pass"); }, {}};
};

class LocatedLayer final : public Layer {
 public:
  LocatedLayer(std::shared_ptr<Layer> layer, std::string where)
      : layer_(std::move(layer)), where_(std::move(where)) {}
  std::vector<Phase> phases() override {
    std::vector<Phase> phases = layer_->phases();
    for (Phase& phase : phases) {
      if (phase.component.empty()) phase.component = where_;
    }
    return phases;
  }
  void end_step(Context& cx) override { layer_->end_step(cx); }

 private:
  std::shared_ptr<Layer> layer_;
  std::string where_;
};

class LocatedRule final : public UpdateRule {
 public:
  LocatedRule(std::shared_ptr<UpdateRule> rule, std::string where)
      : rule_(std::move(rule)), where_(std::move(where)) {}
  std::vector<StateSpec> state() const override { return rule_->state(); }
  double weight_decay() const override { return rule_->weight_decay(); }
  i64 sums() const override { return rule_->sums(); }
  void add_sums(Context& cx,
                const Shards& shards,
                const Tensor& scalars,
                const Tensor& sums) const override {
    try {
      rule_->add_sums(cx, shards, scalars, sums);
    } catch (...) {
      rethrow_located(where_ + ": sums over parameters");
    }
  }
  void update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    try {
      rule_->update(cx, shards, scalars);
    } catch (...) {
      rethrow_located(where_ + ": update of parameters");
    }
  }

 private:
  std::shared_ptr<UpdateRule> rule_;
  std::string where_;
};

}  // namespace

std::string component_text(const ComponentMaker& maker,
                           const std::string& path,
                           std::string_view type) {
  const std::string origin = maker.origin(path, "type");
  const bool written = origin != "default";
  return fmt::format("{}{}[{}] type = \"{}\"{}",
                     written ? origin : "",
                     written ? ": " : "",
                     path,
                     type,
                     written ? "" : " (the default)");
}

void rethrow_located(const std::string& where) {
  try {
    throw;
  } catch (const LocatedError&) {
    throw;
  } catch (const Error& error) {
    throw LocatedError(fmt::format("{}: {}", where, error.what()), error.exit_code());
  } catch (const std::exception& error) {
    throw LocatedError(fmt::format("{}: {}", where, error.what()));
  }
}

std::shared_ptr<Module> located(std::shared_ptr<Module> module, std::string where) {
  return std::make_shared<LocatedModule>(std::move(module), std::move(where));
}

std::shared_ptr<Layer> located(std::shared_ptr<Layer> layer, std::string where) {
  return std::make_shared<LocatedLayer>(std::move(layer), std::move(where));
}

std::shared_ptr<UpdateRule> located(std::shared_ptr<UpdateRule> rule, std::string where) {
  return std::make_shared<LocatedRule>(std::move(rule), std::move(where));
}

}  // namespace tessera
