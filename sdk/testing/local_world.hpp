#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/build.hpp"
#include "tessera/operation.hpp"
#include "tessera/plugin.hpp"
#include "tessera/process_group.hpp"

namespace tessera::testing {

/// What a world of ranks is made of.
struct TESSERA_API LocalWorldOptions {
  Layout layout = {};
  std::string device = "reference";
  DType dtype = DType::fp32;  ///< of parameters and of LocalRank::tensor
  BatchShape batch = {};
  bool sequence_parallel = false;  ///< tensor ranks keep their rows between tensor regions
  u64 seed = 1;
  /// Configuration by absolute path, for fields read from above and for slots of components:
  /// {"model.hidden", 16}, {"mlp.up.type", "my_linear"}.
  Given values = {};
  u64 deferred_seed = 0;  ///< the device's test mode
  std::chrono::milliseconds timeout{20000};
};

/// One rank of a LocalWorld, handed to the body that runs on its thread.
class TESSERA_API LocalRank {
 public:
  virtual ~LocalRank();
  i64 index() const { return mesh().rank(); }
  virtual const Mesh& mesh() const = 0;
  /// A context on the device's compute stream and pool; it records once `tape` is set.
  virtual Context& context() = 0;
  Device& device() { return *context().device; }
  ProcessGroup& group(Axis axis) const { return mesh().group(axis); }

  /// Builds a layer, module or dispatcher at `scope`, which is also the path of its table; its
  /// parameters have their initial values and zero gradients then.
  template <class K>
  std::shared_ptr<K> build(const std::string& scope,
                           const std::string& type,
                           const Given& given = {}) {
    std::shared_ptr<void> made = build(K::kKind, scope, type, given);
    return {made, static_cast<K*>(made.get())};
  }
  /// A parameter of what was built, by its full name.
  Parameter& parameter(const std::string& name);
  /// All of what was built, in the order of declaration.
  virtual std::vector<Parameter*> parameters() = 0;
  /// Its buffers, alike.
  virtual std::vector<Buffer*> buffers() = 0;
  /// Does each rank along `axis` add a part of its own to this loss term?
  virtual bool partial(LossTerm term, Axis axis) const = 0;
  /// Slots of what was built, and a bundle for them.
  virtual Slot slot(const std::string& name) = 0;
  virtual Bundle bundle() const = 0;

  Tensor tensor(const Shape& shape, const std::vector<double>& values);
  Tensor tensor(const Shape& shape, DType dtype, const std::vector<double>& values);

 protected:
  virtual DType dtype() const = 0;
  virtual std::shared_ptr<void> build(std::string_view kind,
                                      const std::string& scope,
                                      const std::string& type,
                                      const Given& given) = 0;
};

/// Ranks as threads of this process, with device, groups and components from plugins: for tests of
/// parallel components and for small programs that show what ranks exchange.
///
///     LocalWorld world({"build/plugins"});
///     world.run({.layout = {.world = 2, .tensor = 2}}, [](LocalRank& rank) {
///       auto linear = rank.build<Module>("up", "column_linear", {{"in", 4}, {"out", 2}});
///       Tensor y = (*linear)(rank.context(), rank.tensor({1, 4}, {1, 2, 3, 4}));
///     });
class TESSERA_API LocalWorld {
 public:
  /// Loads every plugin of these folders; throws Error naming what cannot be loaded.
  explicit LocalWorld(std::vector<std::filesystem::path> plugins);
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  /// Registers components of the program itself, as a plugin would.
  void add(void (*register_all)(Registrar&));
  /// Makes a component of any kind, as the run's configuration would: `values` are its keys, and by
  /// absolute path what it reads from above.
  ///
  ///     TokenizerArguments arguments;
  ///     const auto words = world.make<Tokenizer>("words", arguments, {{"limit", 3}});
  template <class K>
  std::shared_ptr<K> make(std::string_view type,
                          typename K::Arguments& arguments,
                          const Given& values = {}) const {
    std::shared_ptr<void> made = make(K::kKind, type, values, &arguments);
    return {made, static_cast<K*>(made.get())};
  }
  /// What these plugins register for a device of a name: for DeviceArguments::kernels.
  std::function<std::vector<Kernel>(std::string_view device, std::string_view memory_kind)>
  kernels() const;
  /// Runs `body` on every rank and waits. The first error is thrown here; it ends the other ranks'
  /// waits.
  void run(const LocalWorldOptions& options, const std::function<void(LocalRank&)>& body) const;

 private:
  std::shared_ptr<void> make(std::string_view kind,
                             std::string_view type,
                             const Given& values,
                             void* arguments) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::testing
