#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/base/abi.hpp"
#include "tessera/base/identified.hpp"
#include "tessera/schema.hpp"

namespace tessera {

class Registrar;

/// The plain data that a plugin exports under the symbol `tessera_plugin`. The host reads it
/// before it calls any C++ of the library: over a wrong ABI even a std::string is undefined.
struct PluginDescriptor {
  u64 magic;               ///< kPluginMagic
  u64 bytes;               ///< sizeof(PluginDescriptor)
  const char* abi_stamp;   ///< TESSERA_ABI_STAMP of the build: its headers; compared exactly
  const char* abi_fields;  ///< TESSERA_ABI_FIELDS as compiled (abi.hpp); compared exactly
  const char* name;
  const char* version;
  const char* summary;
  void (*register_all)(Registrar&);  ///< the only entry point; may throw Error or std types
};
inline constexpr u64 kPluginMagic = 0x3150415245535354;  // "TSSERAP1", little endian

/// Makes one component from its table. `arguments` is a `K::Arguments*` of the kind K.
/// The result is a K*, held as void.
using Factory = std::function<std::shared_ptr<void>(
    const ConfigNode& node, const Given& given, void* arguments)>;

struct Collective;
struct DeviceUnits;
enum class CommunicatorReach : u8;

struct TESSERA_API ComponentInfo {
  std::string kind, type, doc;
  std::vector<FieldSpec> fields;
  Factory make;
  /// The base of what `make` made, which the host tells who it is. nullptr where the kind has none.
  Identified* (*identified)(void* made) = nullptr;
  /// For a communicator that states it (communicator.hpp): bytes on each member until the
  /// collective is complete, beyond its tensors. nullptr: none.
  i64 (*scratch_bytes)(const Collective& collective, int members) = nullptr;
  /// For a communicator that states it: the kind of memory of the tensors that it carries. Empty:
  /// not known before it is made.
  std::string memory_kind;
  /// For a communicator that states it: which ranks it joins.
  CommunicatorReach reach{};
  /// For a device of which each rank needs a unit (device.hpp). nullptr: ranks need none.
  DeviceUnits (*units)() = nullptr;
  /// An optimizer states kShardsReplicas (optimizer.hpp).
  bool shards_replicas = false;
  /// A rule states kWholeParameters (optimizer.hpp).
  bool whole_parameters = false;

  // Defined in libtessera, so that plugins need not compile them.
  ComponentInfo();
  ComponentInfo(const ComponentInfo& other);
  ComponentInfo(ComponentInfo&& other) noexcept;
  ComponentInfo& operator=(const ComponentInfo& other);
  ComponentInfo& operator=(ComponentInfo&& other) noexcept;
  ~ComponentInfo();
};

/// Type-erased implementation of one operation on one device (operation.hpp).
struct Kernel;

namespace detail {
template <class T>
concept HasConfig = requires {
  typename T::Config;
};
template <class Config>
concept Described = requires(Schema<Config>& schema) {
  Config::describe(schema);
};

template <class K>
concept Registrable = ComponentKind<K> && requires {
  typename K::Arguments;
};

/// Whether T can be registered as a K. If not, the compiler's only error is the sentence of the
/// first mistake: add() instantiates nothing of T.
template <class K, class T>
constexpr bool check_component() {
  if constexpr (!Registrable<K>) {
    static_assert(
        Registrable<K>,
        "add<Kind, T>: Kind must be an interface of the SDK (Layer, UpdateRule, Observer, ...)");
  } else if constexpr (!std::derived_from<T, K>) {
    static_assert(std::derived_from<T, K>, "add<Kind, T>: T must derive publicly from Kind");
  } else if constexpr (std::is_abstract_v<T>) {
    static_assert(!std::is_abstract_v<T>,
                  "add<Kind, T>: T leaves a pure virtual function of Kind without an override");
  } else if constexpr (!HasConfig<T>) {
    static_assert(HasConfig<T>,
                  "add<Kind, T>: T needs a public nested `struct Config`, or `using Config = "
                  "NoConfig;` where it has no keys");
  } else if constexpr (!std::is_default_constructible_v<typename T::Config>) {
    static_assert(std::is_default_constructible_v<typename T::Config>,
                  "add<Kind, T>: T::Config must be default constructible: the initial values of "
                  "its members are the defaults of the keys");
  } else if constexpr (!Described<typename T::Config>) {
    static_assert(Described<typename T::Config>,
                  "add<Kind, T>: T::Config needs `static void describe(Schema<Config>& s)`");
  } else if constexpr (!std::is_constructible_v<T,
                                                const typename T::Config&,
                                                typename K::Arguments&>) {
    static_assert(std::is_constructible_v<T, const typename T::Config&, typename K::Arguments&>,
                  "add<Kind, T>: T needs a public constructor `T(const Config&, Arguments&)` with "
                  "the Arguments of Kind (of Layer and Module: BuildContext)");
  } else {
    return true;
  }
  return false;
}
}  // namespace detail

/// Handed to a plugin's register function; everything a plugin brings goes through it. Called on
/// the loading thread, once per process. A duplicate kind/type is an error that names both files.
class TESSERA_API Registrar {
 public:
  virtual ~Registrar();

  /// Registers T as the component `type` of kind K; `doc` describes it in `tessera plugins` and may
  /// not be empty. K states `kKind` and `Arguments`; T has a nested `Config` (or NoConfig) with
  /// `describe`, and a constructor `T(const Config&, K::Arguments&)`. Where another K may stand in
  /// for it, T has `static std::shared_ptr<K> make(const Config&, K::Arguments&)` too.
  template <class K, class T>
  void add(std::string_view type, std::string_view doc) {
    if constexpr (detail::check_component<K, T>()) add_component(component_info<K, T>(type, doc));
  }

  /// Registers a kernel for an operation on a device. `device` is a device's name, or a kind of
  /// memory: "host" means every device whose memory the CPU addresses (reference, cpu), and none
  /// else.
  virtual void add_kernel(std::string_view device, Kernel kernel) = 0;

 protected:
  virtual void add_component(ComponentInfo info) = 0;

 private:
  template <class K, class T>
  static ComponentInfo component_info(std::string_view type, std::string_view doc) {
    using Config = typename T::Config;
    ComponentInfo info;
    info.kind = K::kKind;
    info.type = type;
    info.doc = doc;
    info.fields = fields_of<Config>();
    info.make = [fields = info.fields](const ConfigNode& node,
                                       const Given& given,
                                       void* arguments) -> std::shared_ptr<void> {
      Config config;
      read_fields(fields, node, given, &config);
      auto& args = *static_cast<typename K::Arguments*>(arguments);
      std::shared_ptr<K> made;
      if constexpr (requires { made = T::make(config, args); }) {
        made = T::make(config, args);
      } else {
        made = std::make_shared<T>(config, args);
      }
      return {made, static_cast<void*>(made.get())};
    };
    if constexpr (std::is_base_of_v<Identified, K>) {
      info.identified = [](void* made) -> Identified* { return static_cast<K*>(made); };
    }
    if constexpr (requires(const Collective& collective) { T::scratch_bytes(collective, 2); }) {
      info.scratch_bytes = &T::scratch_bytes;
    }
    if constexpr (requires { T::kMemoryKind; }) info.memory_kind = T::kMemoryKind;
    if constexpr (requires { T::kReach; }) info.reach = T::kReach;
    if constexpr (requires { T::units(); }) info.units = &T::units;
    if constexpr (requires { T::kShardsReplicas; }) info.shards_replicas = T::kShardsReplicas;
    if constexpr (requires { T::kWholeParameters; }) info.whole_parameters = T::kWholeParameters;
    return info;
  }
};

}  // namespace tessera

/// Defines a plugin. Use once per library, at namespace scope:
///
///     TESSERA_PLUGIN(lion, "0.1.0", "Lion optimizer rule") {
///       registrar.add<tessera::UpdateRule, Lion>("lion", "Chen et al. 2023, algorithm 2");
///     }
#define TESSERA_PLUGIN(NAME, VERSION, SUMMARY)                                             \
  static void tessera_register_(::tessera::Registrar& registrar);                          \
  extern "C" {                                                                             \
  TESSERA_API extern const char TESSERA_ABI_SYMBOL;                                        \
  TESSERA_API extern const ::tessera::PluginDescriptor tessera_plugin;                     \
  const char TESSERA_ABI_SYMBOL = 1;                                                       \
  const ::tessera::PluginDescriptor tessera_plugin = {::tessera::kPluginMagic,             \
                                                      sizeof(::tessera::PluginDescriptor), \
                                                      TESSERA_ABI_STAMP,                   \
                                                      TESSERA_ABI_FIELDS,                  \
                                                      #NAME,                               \
                                                      VERSION,                             \
                                                      SUMMARY,                             \
                                                      &tessera_register_};                 \
  }                                                                                        \
  static void tessera_register_([[maybe_unused]] ::tessera::Registrar& registrar)
