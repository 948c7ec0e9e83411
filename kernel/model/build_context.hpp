#pragma once
#include <functional>
#include <memory>
#include <string>

#include "kernel/config/choice.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/model/model_parts.hpp"
#include "tessera/build.hpp"

namespace tessera {

/// Makes components from their tables, with what the kernel has of plugin host and configuration.
class ComponentMaker {
 public:
  virtual ~ComponentMaker() = default;
  virtual std::shared_ptr<void> make(std::string_view kind,
                                     const std::string& type,
                                     const std::string& path,
                                     const Given& given,
                                     void* arguments) = 0;
  /// Whether a component was made from the table at `path`.
  virtual bool made(const std::string& path) const = 0;
  /// "configs/x.toml:12:3" of a key of the table at `path`.
  virtual std::string origin(const std::string& path, std::string_view key) const = 0;
  /// `run.toml:12:3: [model.block.mlp] type = "moe"`, for errors.
  std::string choice(const std::string& path, std::string_view type) const {
    return choice_text(origin(path, "type"), path, type);
  }
  /// Kernels that plugins registered for the device of this name or for this kind of memory.
  virtual std::vector<Kernel> kernels(std::string_view device,
                                      std::string_view memory_kind) const = 0;

  template <class K>
  std::shared_ptr<K> make(const Component<K>& component,
                          typename K::Arguments& arguments,
                          const Given& given = {}) {
    std::shared_ptr<void> made = make(K::kKind,
                                      component.type,
                                      component.path,
                                      given,
                                      const_cast<void*>(static_cast<const void*>(&arguments)));
    return {made, static_cast<K*>(made.get())};
  }
};

/// What one rank's model is built with.
struct BuildSettings {
  const Mesh* mesh = nullptr;
  BatchShape batch;
  bool sequence_parallel = false;
  DType compute = DType::fp32, main = DType::fp32;
  u64 seed = 0;
  const Device* device = nullptr;
  ComponentMaker* maker = nullptr;
  /// Parameters keep where the configuration chose the component that declares them (a dry run).
  bool locate_errors = false;
  /// The checkpoint whose own configuration this is.
  const StoredParameters* stored = nullptr;
};

/// BuildContext of one component; children get contexts of their own, nested by scope.
class ScopedBuild final : public BuildContext {
 public:
  ScopedBuild(const BuildSettings& settings,
              ModelParts& parts,
              int layer,
              std::string scope,
              std::string path,
              std::string type = {},
              ChildRows rows = ChildRows::ours);
  const Mesh& mesh() const override { return *settings_.mesh; }
  const BatchShape& batch() const override { return settings_.batch; }
  DType compute_dtype() const override { return settings_.compute; }
  std::string scope() const override { return scope_; }
  Parameter& parameter(const ParameterSpec& spec) override;
  Buffer& buffer(const BufferSpec& spec) override;
  Slot slot(std::string_view name) override { return {parts_.slot(name)}; }
  HostSlot host_slot(std::string_view name) override { return {parts_.host_slot(name)}; }
  void bound(std::string_view input, i64 values, std::string_view key) override {
    parts_.bound({std::string(input), values, component(), std::string(key)});
  }
  CacheSlot cache_slot() override { return {parts_.cache_slot()}; }
  u64 random_site(std::string_view name) override;
  LossTerm loss(const LossSpec& spec) override;
  Metric metric(const MetricSpec& spec) override;
  Counts counts(const CountSpec& spec) override;
  [[noreturn]] void reject(std::string_view key, std::string_view why) const override;

 protected:
  const Device* device() const override { return settings_.device; }
  bool own_rows() const override { return settings_.sequence_parallel || rows_ == ChildRows::own; }
  std::shared_ptr<void> make_child(std::string_view kind,
                                   std::string_view name,
                                   const std::string& type,
                                   const std::string& path,
                                   const Given& given,
                                   ChildRows rows) override;

 private:
  /// Throws ConfigError where the model outgrows the checkpoint by far. Smaller misfits are told
  /// with all names once the model is built.
  void require_stored(const std::string& parameter) const;
  /// Where the configuration chose this component: its table, with file and line.
  std::string component() const;

  const BuildSettings& settings_;
  ModelParts& parts_;
  int layer_;
  std::string scope_, path_, type_;
  ChildRows rows_;
};

}  // namespace tessera
