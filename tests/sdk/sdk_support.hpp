#pragma once
#include <tessera/build.hpp>
#include <tessera/plugin.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// Keeps what a plugin registers.
class TestRegistrar final : public Registrar {
 public:
  void add_kernel(std::string_view device, Kernel kernel) override {
    if (device == "host") kernels.push_back(std::move(kernel));
  }
  const ComponentInfo& find(std::string_view kind, std::string_view type) const;

  std::vector<ComponentInfo> components;
  std::vector<Kernel> kernels;

 protected:
  void add_component(ComponentInfo info) override { components.push_back(std::move(info)); }
};

/// A table of values; `absolute` ones are shared with its sub-tables.
class TestTable final : public ConfigNode {
 public:
  explicit TestTable(std::map<std::string, Value> own = {},
                     std::map<std::string, Value> absolute = {})
      : own_(std::move(own)), absolute_(std::move(absolute)) {}
  std::string path() const override { return "table"; }
  const Value* find(std::string_view key) const override { return look(own_, key); }
  const Value* absolute(std::string_view path) const override { return look(absolute_, path); }
  std::vector<std::string> tables(std::string_view) const override { return {}; }
  std::unique_ptr<ConfigNode> child(std::string_view key) const override;
  std::string origin(std::string_view) const override { return "test"; }

 private:
  static const Value* look(const std::map<std::string, Value>& in, std::string_view key) {
    const auto found = in.find(std::string(key));
    return found == in.end() ? nullptr : &found->second;
  }
  std::map<std::string, Value> own_, absolute_;
};

/// Builds components of a TestRegistrar and notes what they declare.
class TestBuild final : public BuildContext {
 public:
  /// Everything that is declared, over all scopes.
  struct Declared {
    std::vector<std::unique_ptr<Parameter>> parameters;
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<std::string> slots, host_slots, metrics, losses;
    int cache_slots = 0, counts = 0;
    const Parameter& parameter(std::string_view name) const;
  };
  TestBuild(const TestRegistrar& registrar,
            const Mesh& mesh,
            const TestTable& table,
            Declared& declared,
            std::string scope = "layer",
            const Device* device = nullptr)
      : registrar_(registrar),
        mesh_(mesh),
        table_(table),
        declared_(declared),
        scope_(std::move(scope)),
        device_(device) {}

  const Mesh& mesh() const override { return mesh_; }
  const BatchShape& batch() const override { return batch_; }
  DType compute_dtype() const override { return DType::fp32; }
  std::string scope() const override { return scope_; }
  Parameter& parameter(const ParameterSpec& spec) override;
  Slot slot(std::string_view name) override { return {index(declared_.slots, name)}; }
  HostSlot host_slot(std::string_view name) override { return {index(declared_.host_slots, name)}; }
  CacheSlot cache_slot() override { return {declared_.cache_slots++}; }
  u64 random_site(std::string_view name) override {
    return random_key(1, scope_ + "/" + std::string(name));
  }
  Buffer& buffer(const BufferSpec& spec) override;
  void bound(std::string_view, i64, std::string_view) override {}
  LossTerm loss(const LossSpec& spec) override { return {index(declared_.losses, spec.name)}; }
  Metric metric(const MetricSpec& spec) override { return {index(declared_.metrics, spec.name)}; }
  Counts counts(const CountSpec&) override { return {declared_.counts++}; }
  [[noreturn]] void reject(std::string_view key, std::string_view why) const override {
    fail_config("{}: {}", key, why);
  }

  /// A component of kind K, as the kernel makes one from its table.
  template <class K>
  std::shared_ptr<K> make(std::string_view type, const Given& given = {}) {
    BuildContext& self = *this;
    std::shared_ptr<void> made = registrar_.find(K::kKind, type).make(table_, given, &self);
    return {made, static_cast<K*>(made.get())};
  }

 protected:
  const Device* device() const override { return device_; }
  bool own_rows() const override { return false; }
  std::shared_ptr<void> make_child(std::string_view kind,
                                   std::string_view name,
                                   const std::string& type,
                                   const std::string& path,
                                   const Given& given,
                                   ChildRows rows) override;

 private:
  static int index(std::vector<std::string>& names, std::string_view name);

  const TestRegistrar& registrar_;
  const Mesh& mesh_;
  const TestTable& table_;
  Declared& declared_;
  std::string scope_;
  const Device* device_;
  BatchShape batch_{2, 8};
};

}  // namespace tessera
