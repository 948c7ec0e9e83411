#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/key_names.hpp"
#include "kernel/config/resolve.hpp"

namespace tessera {

/// A stretch of layers during which a table had one type. Overlays may change it.
struct TypeEra {
  int first_layer = -1;
  std::string type;
  const ComponentInfo* info = nullptr;     ///< nullptr: none, "auto", or not loaded
  std::vector<const FieldSpec*> fields{};  ///< its keys; "auto": of all types that it may choose
  std::string by_units{};                  ///< why "auto" is this type here
};

/// A key or table that nobody declares, described once everything declared is known.
struct UnknownKey {
  std::string table, key;
  Origin at;
  bool is_table = false;
  std::vector<std::string> known;  ///< keys of the table
  std::string kind, type;          ///< of the component that the table selects, if it does
};

/// Walks a configuration along the schemas: the kernel's root sections, the components that their
/// `type` keys name, the slots of these, and so on. Collects problems and builds the resolved tree.
class Checker {
 public:
  Checker(const Config& config, const Catalog& catalog) : config_(config), catalog_(catalog) {}
  void run();

  std::vector<Problem> problems;
  std::set<std::string> doubtful;  ///< Resolved::doubtful
  std::vector<std::string> notices;
  ConfigTree tree;
  SlotTables slots;

 private:
  struct Slot {
    std::string path, kind;
    std::vector<TypeEra> defaults;  ///< by the types of the table around it
    bool allows_auto = false, allows_none = false;
    const std::vector<FieldSpec>* own = nullptr;  ///< further keys, of a root section
    bool structural = false;                      ///< FieldSpec::structural
    bool by_units = false;                        ///< RootSection::by_units
    std::string around{}, doc{};                  ///< WrittenSlot; of a root section empty
  };

  void check_section(const RootSection& section);
  void check_slot(const Slot& slot);
  bool check_type(const Slot& slot, const TypeEra& era);
  /// Adds what the last type "auto" is here.
  void choose_by_units(const Slot& slot, std::vector<TypeEra>& eras);
  /// Refuses a share of units where none are needed.
  void check_share(const Slot& slot, const TypeEra& era);
  /// Where "auto" became such a type: drops the keys that are for another, with a notice each.
  void drop_keys_of_units();
  void check_keys(const std::string& path,
                  const std::vector<const FieldSpec*>& fields,
                  const std::vector<TypeEra>& eras,
                  std::string_view kind);
  void check_field(const std::string& table,
                   const FieldSpec& spec,
                   const std::vector<TypeEra>& eras);
  void check_tables(const std::string& path, const FieldSpec& spec);
  void check_variants(const std::string& table,
                      const FieldSpec& spec,
                      const std::vector<TypeEra>& eras);
  void check_value(const std::string& path, const FieldSpec& spec, const Entry& entry);
  /// Refuses control characters: messages show paths and names within a line.
  void check_line(const std::string& path, const Value& value, const Origin& at);
  void check_missing(const std::string& path, const FieldSpec& spec);
  void check_unknown(const std::string& table,
                     const std::string& key,
                     const std::vector<const FieldSpec*>& fields,
                     const std::vector<TypeEra>& eras,
                     std::string_view kind);
  /// Refuses a key that only the component around it sets, and says which key it sets it from.
  void tell_given();
  std::string giver(const FieldSpec& spec) const;
  /// Fills `slots`.
  void find_written_slots();
  /// Drops a key that only an earlier type of this table declared. Returns false for any other.
  bool drop(const std::string& path, const std::vector<TypeEra>& eras);

  std::vector<TypeEra> timeline(const Slot& slot) const;
  std::vector<TypeEra> slot_defaults(const FieldSpec& spec, const std::vector<TypeEra>& eras) const;
  TypeEra era(int first_layer, std::string_view kind, const std::string& type) const;

  void settle_from();
  const Value* settle(const std::string& path);
  void complete_paths();
  void check_run_name(const std::string& name, bool names_folder);

  void put_default(const std::string& path, const FieldSpec& spec, const Value& value);
  void value_of_slot(const Slot& slot, const Entry& written);
  /// The first path key of the components of a kind; empty where they have none.
  std::string path_key(const std::string& kind) const;
  void unknown_type(const Slot& slot, const std::string& type, const Entry* written);
  void missing(const std::string& table, const std::string& key, const std::string& what);
  std::string unknown_text(const UnknownKey& unknown) const;
  std::string elsewhere(const UnknownKey& unknown) const;
  /// Components of the kind of its table that know the key, in quotes.
  std::vector<std::string> types_with(const UnknownKey& unknown) const;
  std::string of_other_types(const std::string& key) const;  ///< components that could be chosen
  /// Where the known keys of an unknown section belong, but for those that `near` has.
  std::string children_elsewhere(const std::string& section, const std::string& near) const;
  /// `"adamw" is a rule: write [optimizer.rule] type = "adamw"` for a component that is of another
  /// kind than a slot; empty where there is none of a name like that.
  std::string other_slot(const Slot& slot, const std::string& type) const;
  /// Adds "position: text" with the source line, and `details` on lines of their own. What a
  /// variant inherits is told once, where it was written.
  void tell(const Origin& at, const std::string& text, const std::string& details = "");
  /// The same about `path`, whose section becomes doubtful.
  void problem(const std::string& path,
               const Origin& at,
               const std::string& text,
               const std::string& details = "");
  /// Marks as doubtful the keys that an unknown one may have been meant for.
  void doubt_places_of(const UnknownKey& unknown);
  /// Marks as doubtful the keys that take their value from a doubtful one.
  void doubt_what_is_taken();

  /// Made when the first error asks.
  const KeyNames& names() const;

  Config config_;  // with what variants inherit
  const Catalog& catalog_;
  std::vector<UnknownKey> unknown_;
  std::map<std::string, const FieldSpec*> pending_;  ///< `from` keys that are not set
  std::set<std::string> settling_;
  std::string without_units_;  ///< the device that "auto" is, where it needs no units
  std::map<std::string, std::string> taken_from_;                  ///< keys, by `from`
  std::map<std::string, std::vector<std::string>> tables_of_key_;  ///< where each key is declared
  mutable std::optional<KeyNames> names_;
  using Variant = SlotTables::Variant;
  std::optional<Variant> variant_;  ///< that is being checked
  struct GivenKey {
    std::string table;
    const FieldSpec* spec;
    Origin at;
    std::optional<Variant> variant;
  };
  std::vector<GivenKey> given_;  ///< that are written
  struct SlotAt {
    WrittenSlot slot;
    std::string initial;  ///< its default type
  };
  std::map<std::string, SlotAt, std::less<>> slots_;  ///< by path: all that are no sections
  int depth_ = 0;
};

/// "model" of "model.block.mlp".
std::string section_of(std::string_view path);

/// "[model.block] mlp", for headlines.
std::string label(std::string_view path);

}  // namespace tessera
