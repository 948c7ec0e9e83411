#include "kernel/plugin/named.hpp"

#include <atomic>
#include <cmath>
#include <utility>

#include "kernel/plugin/floating_point.hpp"
#include "tessera/comm.hpp"
#include "tessera/converter.hpp"
#include "tessera/data.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/doing.hpp"
#include "tessera/error.hpp"
#include "tessera/graph.hpp"
#include "tessera/host_comm.hpp"
#include "tessera/layer.hpp"
#include "tessera/model.hpp"
#include "tessera/observer.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

namespace {

// The name of one component.
class Name {
 public:
  Name(std::string_view kind, std::string_view type, std::string place, const PluginOrigin& origin)
      : origin_(origin),
        place_(std::move(place)),
        component_(fmt::format("{}/{}", kind, type)),
        text_(fmt::format("{} of plugin {} {}", component_, origin.name, origin.version)) {}

  template <class F>
  decltype(auto) call(std::string_view what, F&& f) const {
    const Doing now = doing(what);
    const FloatingPointGuard guard = floating_point(what);
    try {
      return std::forward<F>(f)();
    } catch (...) {
      rethrow(what);
    }
  }

  // For crashes, and for exceptions that leave a destructor.
  Doing doing(std::string_view what) const { return {text_, what}; }
  /// For calls that leave another rounding behind.
  FloatingPointGuard floating_point(std::string_view what) const {
    return {FloatingPointGuard::During::call, text_, what, told_.get()};
  }
  const std::string& text() const { return text_; }

  [[noreturn]] void rethrow(std::string_view what) const {
    rethrow_from_plugin(origin_, fmt::format("{} ({})", component_, what), place_);
  }

 private:
  const PluginOrigin& origin_;
  std::string place_, component_, text_;
  std::shared_ptr<std::atomic<bool>> told_ = std::make_shared<std::atomic<bool>>(false);
};

// A component of kind K, whatever its type.
template <class K>
class Named : public K {
 public:
  Named(std::shared_ptr<K> component, Name name)
      : component_(std::move(component)), name_(std::move(name)) {}
  ~Named() override {
    const Doing doing = name_.doing("destructor");
    const FloatingPointGuard guard = name_.floating_point("destructor");
    component_.reset();
  }
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;

 protected:
  template <class F>
  decltype(auto) call(std::string_view what, F&& f) const {
    return name_.call(what, [&]() -> decltype(auto) { return std::forward<F>(f)(*component_); });
  }
  const Name& who() const { return name_; }

 private:
  std::shared_ptr<K> component_;
  Name name_;
};

struct NamedTokenizer final : Named<Tokenizer> {
  using Named::Named;
  i64 vocabulary() const override {
    return call("vocabulary", [](auto& c) { return c.vocabulary(); });
  }
  std::string fingerprint() const override {
    return call("fingerprint", [](auto& c) { return c.fingerprint(); });
  }
  bool bytes_are_ids() const override {
    return call("bytes_are_ids", [](auto& c) { return c.bytes_are_ids(); });
  }
  std::vector<i32> encode(std::string_view text) const override {
    return call("encode", [&](auto& c) { return c.encode(text); });
  }
  std::string decode(const std::vector<i32>& ids) const override {
    return call("decode", [&](auto& c) { return c.decode(ids); });
  }
};

struct NamedDataset final : Named<Dataset> {
  using Named::Named;
  std::vector<FieldInfo> fields() const override {
    return call("fields", [](auto& c) { return c.fields(); });
  }
  i64 size(SampleSet set) const override {
    return call("size", [&](auto& c) { return c.size(set); });
  }
  void read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override {
    call("read", [&](auto& c) { c.read(set, ordinal, out); });
  }
  std::string fingerprint() const override {
    return call("fingerprint", [](auto& c) { return c.fingerprint(); });
  }
  SetContent content(SampleSet set) const override {
    return call("content", [&](auto& c) { return c.content(set); });
  }
  std::vector<const DataFile*> files() const override {
    return call("files", [](auto& c) { return c.files(); });
  }
};

struct NamedSchedule final : Named<PipelineSchedule> {
  using Named::Named;
  int chunks() const override {
    return call("chunks", [](auto& c) { return c.chunks(); });
  }
  Place place(const PipelineShape& shape, int rank, int chunk) const override {
    return call("place", [&](auto& c) { return c.place(shape, rank, chunk); });
  }
  int live(const PipelineShape& shape, int chunk) const override {
    return call("live", [&](auto& c) { return c.live(shape, chunk); });
  }
  int warmup(const PipelineShape& shape) const override {
    return call("warmup", [&](auto& c) { return c.warmup(shape); });
  }
  bool overlaps() const override {
    return call("overlaps", [](auto& c) { return c.overlaps(); });
  }
  std::vector<Action> order(const PipelineShape& shape) const override {
    return call("order", [&](auto& c) { return c.order(shape); });
  }
};

struct NamedLr final : Named<LrSchedule> {
  using Named::Named;
  double rate(i64 step) const override {
    return call("rate", [&](auto& c) {
      const double rate = c.rate(step);
      require(std::isfinite(rate) && rate >= 0,
              "the rate of update {} is {}; it has to be finite and not negative",
              step,
              rate);
      return rate;
    });
  }
};

struct NamedRule final : Named<UpdateRule> {
  using Named::Named;
  std::vector<StateSpec> state() const override {
    return call("state", [](auto& c) { return c.state(); });
  }
  double weight_decay() const override {
    return call("weight_decay", [](auto& c) { return c.weight_decay(); });
  }
  i64 sums() const override {
    return call("sums", [](auto& c) { return c.sums(); });
  }
  void add_sums(Context& cx,
                const Shards& shards,
                const Tensor& scalars,
                const Tensor& sums) const override {
    call("add_sums", [&](auto& c) { c.add_sums(cx, shards, scalars, sums); });
  }
  void update(Context& cx, const Shards& shards, const Tensor& scalars) const override {
    call("update", [&](auto& c) { c.update(cx, shards, scalars); });
  }
};

struct NamedOptimizer final : Named<Optimizer> {
  using Named::Named;
  void sum_squares(Context& cx, const Tensor& out) override {
    call("sum_squares", [&](auto& c) { c.sum_squares(cx, out); });
  }
  void step(Context& cx, const Tensor& scalars) override {
    call("step", [&](auto& c) { c.step(cx, scalars); });
  }
  double clip() const override {
    return call("clip", [](auto& c) { return c.clip(); });
  }
  std::vector<NamedState> state() override {
    return call("state", [](auto& c) { return c.state(); });
  }
};

// A layer that waits for a collective is not to blame for what goes wrong in it.
class NamedCollective final : public PendingCollective {
 public:
  NamedCollective(std::shared_ptr<PendingCollective> inner, std::shared_ptr<const Name> name)
      : inner_(std::move(inner)), name_(std::move(name)) {}
  void wait(Stream& stream) override {
    name_->call("wait", [&] { inner_->wait(stream); });
  }
  void wait_received(Stream& stream) override {
    name_->call("wait_received", [&] { inner_->wait_received(stream); });
  }
  void join() override {
    name_->call("join", [&] { inner_->join(); });
  }

 private:
  std::shared_ptr<PendingCollective> inner_;
  std::shared_ptr<const Name> name_;
};

class NamedBackend final : public GroupBackend {
 public:
  NamedBackend(std::unique_ptr<GroupBackend> inner, const Name& name)
      : inner_(std::move(inner)), name_(std::make_shared<const Name>(name)) {}
  std::shared_ptr<PendingCollective> start(Collective collective, Stream& after) override {
    return name_->call("start", [&] {
      return std::make_shared<NamedCollective>(inner_->start(std::move(collective), after), name_);
    });
  }
  bool capturable() const override { return inner_->capturable(); }
  HostGroup* host_group() override { return inner_->host_group(); }
  bool counts_only() const override { return inner_->counts_only(); }

 private:
  std::unique_ptr<GroupBackend> inner_;
  std::shared_ptr<const Name> name_;
};

// The same where the CPU carries them out: replays and groups over several hosts call it, too.
class NamedHostGroup final : public HostGroup {
 public:
  NamedHostGroup(std::unique_ptr<GroupBackend> inner,
                 const GroupSpec& spec,
                 Device& device,
                 const Name& name)
      : HostGroup(device, spec.lane),
        inner_(std::move(inner)),
        group_(*inner_->host_group()),
        name_(name) {}
  bool capturable() const override { return inner_->capturable(); }
  bool counts_only() const override { return inner_->counts_only(); }
  Ticket post(const Collective& collective) override {
    return name_.call("post", [&] { return group_.post(collective); });
  }
  void finish(Ticket ticket) override {
    name_.call("finish", [&] { group_.finish(ticket); });
  }
  void finish_received(Ticket ticket) override {
    name_.call("finish_received", [&] { group_.finish_received(ticket); });
  }

 private:
  std::unique_ptr<GroupBackend> inner_;
  HostGroup& group_;
  const Name name_;
};

struct NamedCommunicator final : Named<Communicator> {
  using Named::Named;
  std::string_view name() const override {
    return call("name", [](auto& c) { return c.name(); });
  }
  std::string_view memory_kind() const override {
    return call("memory_kind", [](auto& c) { return c.memory_kind(); });
  }
  std::unique_ptr<GroupBackend> create_group(const GroupSpec& spec, Device& device) override {
    std::unique_ptr<GroupBackend> backend =
        call("create_group", [&](auto& c) { return c.create_group(spec, device); });
    if (backend == nullptr) return nullptr;  // a group of one needs none
    // One that wraps another group has a start() of its own.
    const GroupBackend* const host_group = backend->host_group();
    if (host_group != nullptr && host_group == backend.get()) {
      return std::make_unique<NamedHostGroup>(std::move(backend), spec, device, who());
    }
    return std::make_unique<NamedBackend>(std::move(backend), who());
  }
  std::shared_ptr<MemorySource> memory() override {
    return call("memory", [](auto& c) { return c.memory(); });
  }
  bool progress() override {
    return call("progress", [](auto& c) { return c.progress(); });
  }
  void abort(std::string_view reason) noexcept override {
    call("abort", [&](auto& c) { c.abort(reason); });
  }
};

struct NamedObserver final : Named<Observer> {
  using Named::Named;
  StepRange recorded_steps() const override {
    return call("recorded_steps", [](auto& c) { return c.recorded_steps(); });
  }
  void on(const RunStart& e) override { tell("RunStart", e); }
  void on(const StepEnd& e) override { tell("StepEnd", e); }
  void on(const MemoryUse& e) override { tell("MemoryUse", e); }
  void on(const Validation& e) override { tell("Validation", e); }
  void on(const SampleText& e) override { tell("SampleText", e); }
  void on(const Saving& e) override { tell("Saving", e); }
  void on(const Saved& e) override { tell("Saved", e); }
  void on(const Recorded& e) override { tell("Recorded", e); }
  void on(const Failure& e) override { tell("Failure", e); }
  void on(const RunEnd& e) override { tell("RunEnd", e); }

 private:
  template <class E>
  void tell(std::string_view event, const E& e) {
    call(event, [&](auto& c) { c.on(e); });
  }
};

struct NamedGraphPolicy final : Named<GraphPolicy> {
  using Named::Named;
  void check(std::span<const PhaseInfo> blocks) const override {
    call("check", [&](auto& c) { c.check(blocks); });
  }
  std::vector<CapturedRange> choose(std::span<const PhaseInfo> phases,
                                    const Plan& plan) const override {
    return call("choose", [&](auto& c) { return c.choose(phases, plan); });
  }
  bool whole_step() const override {
    return call("whole_step", [](auto& c) { return c.whole_step(); });
  }
};

struct NamedConverter final : Named<Converter> {
  using Named::Named;
  std::string_view model_type() const override {
    return call("model_type", [](auto& c) { return c.model_type(); });
  }
  Settings to_ours(Claims& theirs) const override {
    return call("to_ours", [&](auto& c) { return c.to_ours(theirs); });
  }
  Settings to_theirs(const Settings& ours) const override {
    return call("to_theirs", [&](auto& c) { return c.to_theirs(ours); });
  }
  TokenizerFiles tokenizer_files() const override {
    return call("tokenizer_files", [](auto& c) { return c.tokenizer_files(); });
  }
  Settings tokenizer(const std::string& folder, const Settings& theirs) const override {
    return call("tokenizer", [&](auto& c) { return c.tokenizer(folder, theirs); });
  }
  TokenIds token_ids(const Tokenizer* tokenizer, const Settings& written) const override {
    return call("token_ids", [&](auto& c) { return c.token_ids(tokenizer, written); });
  }
  std::string tokenizer_config(const Tokenizer& tokenizer, const Settings& ours) const override {
    return call("tokenizer_config", [&](auto& c) { return c.tokenizer_config(tokenizer, ours); });
  }
  bool harmless_file(std::string_view name) const override {
    return call("harmless_file", [&](auto& c) { return c.harmless_file(name); });
  }
  std::vector<ConvertedTensor> tensors(const Settings& theirs) const override {
    return call("tensors", [&](auto& c) { return c.tensors(theirs); });
  }
  std::string_view optional_prefix() const override {
    return call("optional_prefix", [](auto& c) { return c.optional_prefix(); });
  }
  std::vector<SharedTensor> shared(const Settings& theirs) const override {
    return call("shared", [&](auto& c) { return c.shared(theirs); });
  }
  bool redundant(std::string_view name, const Settings& theirs) const override {
    return call("redundant", [&](auto& c) { return c.redundant(name, theirs); });
  }
};

struct NamedModel final : Named<Model> {
  using Named::Named;
  std::vector<ModelLayer> layers() const override {
    return call("layers", [](auto& c) { return c.layers(); });
  }
  std::shared_ptr<Layer> build(int index, BuildContext& build) const override {
    return call("build", [&](auto& c) { return c.build(index, build); });
  }
  i64 vocabulary() const override {
    return call("vocabulary", [](auto& c) { return c.vocabulary(); });
  }
};

struct NamedDispatcher final : Named<TokenDispatcher> {
  using Named::Named;
  ExpertRows preprocess(Context& cx,
                        Bundle& bundle,
                        const Tensor& x,
                        const Routing& routing) const override {
    return call("preprocess", [&](auto& c) { return c.preprocess(cx, bundle, x, routing); });
  }
  std::vector<HostSlot> reads() const override {
    return call("reads", [](auto& c) { return c.reads(); });
  }
  Shapes shapes() const override {
    return call("shapes", [](auto& c) { return c.shapes(); });
  }
  ExpertRows dispatch(Context& cx,
                      Bundle& bundle,
                      const ExpertRows& rows,
                      const Meanwhile& meanwhile) const override {
    return call("dispatch", [&](auto& c) { return c.dispatch(cx, bundle, rows, meanwhile); });
  }
  Tensor counts(const Bundle& bundle) const override {
    return call("counts", [&](auto& c) { return c.counts(bundle); });
  }
  Tensor combine(Context& cx,
                 Bundle& bundle,
                 const Tensor& y,
                 const Meanwhile& meanwhile) const override {
    return call("combine", [&](auto& c) { return c.combine(cx, bundle, y, meanwhile); });
  }
  Tensor unpermute(Context& cx, Bundle& bundle, const Tensor& y) const override {
    return call("unpermute", [&](auto& c) { return c.unpermute(cx, bundle, y); });
  }
};

struct NamedRouter final : Named<Router> {
  using Named::Named;
  Routing operator()(Context& cx, Bundle& bundle, const Tensor& x) const override {
    return call("route", [&](auto& c) { return c(cx, bundle, x); });
  }
  i64 choices(i64 top_k) const override {
    return call("choices", [&](auto& c) { return c.choices(top_k); });
  }
  i64 rows_per_sequence() const override {
    return call("rows_per_sequence", [](auto& c) { return c.rows_per_sequence(); });
  }
  bool incremental() const override {
    return call("incremental", [](auto& c) { return c.incremental(); });
  }
  void end_step(Context& cx) override {
    call("end_step", [&](auto& c) { c.end_step(cx); });
  }
};

// Names errors of what a component records for the backward pass. A handler that was there before
// belongs to what is around the component, the same each time, and may add to the text.
class InBackward {
 public:
  explicit InBackward(const Name& name) : name_(name) {}
  InBackward(const InBackward&) = delete;
  InBackward& operator=(const InBackward&) = delete;

  // While it lives, what is recorded on the tape has the handler.
  class Recording : public ErrorHandlerScope {
   public:
    Recording(InBackward& owner, Tape* tape) : ErrorHandlerScope(tape, &owner.handler_) {
      if (tape != nullptr) owner.around_ = around();
    }
  };

 private:
  const Name& name_;
  const Tape::ErrorHandler* around_ = nullptr;
  void rethrow() const {
    try {
      name_.rethrow("backward pass");
    } catch (...) {
      if (around_ != nullptr) around_->rethrow();
      throw;
    }
  }
  Tape::ErrorHandler handler_{[this] { rethrow(); }, name_.text()};
};

struct NamedModule final : Named<Module> {
  using Named::Named;
  Tensor operator()(Context& cx, const Tensor& x) const override {
    const InBackward::Recording recording(in_backward_, cx.tape);
    return call("forward pass", [&](auto& c) { return c(cx, x); });
  }

 private:
  mutable InBackward in_backward_{who()};
};

struct NamedLayer final : Named<Layer> {
  using Named::Named;
  std::vector<Phase> phases() override {
    std::vector<Phase> phases = call("phases", [](auto& c) { return c.phases(); });
    for (Phase& phase : phases) {
      if (!phase.run) continue;
      phase.run = [this, scope = phase.scope, run = std::move(phase.run)](Context& cx, Bundle& b) {
        const InBackward::Recording recording(in_backward_, cx.tape);
        who().call(scope, [&] { run(cx, b); });
      };
    }
    return phases;
  }
  void end_step(Context& cx) override {
    call("end_step", [&](auto& c) { c.end_step(cx); });
  }

 private:
  InBackward in_backward_{who()};
};

template <class K, class Wrapper>
std::shared_ptr<void> wrap(std::shared_ptr<void> made, Name name) {
  std::shared_ptr<K> component(made, static_cast<K*>(made.get()));
  std::shared_ptr<K> wrapper = std::make_shared<Wrapper>(std::move(component), std::move(name));
  return {wrapper, static_cast<void*>(wrapper.get())};
}

// A kernel's name in messages. The component that launched it is named further up.
struct KernelName {
  KernelName(const std::string& operation, const PluginOrigin& origin)
      : text(fmt::format("a kernel of {}, operation \"{}\"", origin.text(), operation)) {}
  std::string text;
  std::atomic<bool> told = false;  // of another rounding that it left behind
};

template <class F>
decltype(auto) call_kernel(KernelName& name, F&& f) {
  const auto text = [&](std::string_view what) {
    return fmt::format("{}\n  in {}", what, name.text);
  };
  const FloatingPointGuard guard(FloatingPointGuard::During::call, name.text, "", &name.told);
  try {
    return std::forward<F>(f)();
  } catch (const ConfigError& error) {
    throw ConfigError(text(error.what()));
  } catch (const Error& error) {
    throw Error(text(error.what()), error.exit_code());
  } catch (const std::exception& error) {
    throw Error(text(error.what()));
  } catch (...) {
    throw Error(text(kForeignException));
  }
}

}  // namespace

Kernel named_kernel(Kernel kernel, const PluginOrigin& origin) {
  if (origin.builtin()) return kernel;
  const auto name = std::make_shared<KernelName>(kernel.operation, origin);
  if (kernel.prepare) {
    kernel.prepare = [name, inner = std::move(kernel.prepare)](const void* args) {
      return call_kernel(*name, [&] { return inner(args); });
    };
  }
  kernel.launch = [name, inner = std::move(kernel.launch)](
                      const void* args, void* workspace, Stream& stream) {
    call_kernel(*name, [&] { inner(args, workspace, stream); });
  };
  return kernel;
}

std::shared_ptr<void> named(std::string_view kind,
                            std::string_view type,
                            std::string place,
                            std::shared_ptr<void> made,
                            const PluginOrigin& origin) {
  using Wrap = std::shared_ptr<void> (*)(std::shared_ptr<void>, Name);
  constexpr std::pair<std::string_view, Wrap> kKinds[] = {
      {Tokenizer::kKind, wrap<Tokenizer, NamedTokenizer>},
      {Dataset::kKind, wrap<Dataset, NamedDataset>},
      {PipelineSchedule::kKind, wrap<PipelineSchedule, NamedSchedule>},
      {LrSchedule::kKind, wrap<LrSchedule, NamedLr>},
      {UpdateRule::kKind, wrap<UpdateRule, NamedRule>},
      {Optimizer::kKind, wrap<Optimizer, NamedOptimizer>},
      {Communicator::kKind, wrap<Communicator, NamedCommunicator>},
      {Observer::kKind, wrap<Observer, NamedObserver>},
      {Converter::kKind, wrap<Converter, NamedConverter>},
      {GraphPolicy::kKind, wrap<GraphPolicy, NamedGraphPolicy>},
      {Model::kKind, wrap<Model, NamedModel>},
      {TokenDispatcher::kKind, wrap<TokenDispatcher, NamedDispatcher>},
      {Router::kKind, wrap<Router, NamedRouter>},
      {Module::kKind, wrap<Module, NamedModule>},
      {Layer::kKind, wrap<Layer, NamedLayer>},
  };
  if (origin.builtin()) return made;
  for (const auto& [known, wrapped] : kKinds) {
    if (known == kind) return wrapped(std::move(made), Name(kind, type, std::move(place), origin));
  }
  return made;
}

}  // namespace tessera
