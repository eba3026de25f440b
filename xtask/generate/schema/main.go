// Command schema prints the facts that Cadastre keeps of the built-in kinds, as the table
// crates/api/src/schema/builtin.table; crates/api/src/schema/table.rs says how to read it.
//
// JSON names, protobuf numbers, Go types, and merge keys come from the types of k8s.io/api by reflection; what is
// required, list types, defaults and enumerations come from the definitions that kube-apiserver publishes. Only facts are
// printed, no sentences.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// roots are the types that clients send or get; what they refer to follows.
var roots = []any{
	corev1.Namespace{}, corev1.NamespaceList{},
	corev1.Node{}, corev1.NodeList{},
	corev1.Service{}, corev1.ServiceList{},
	corev1.Event{}, corev1.EventList{},
	corev1.ConfigMap{}, corev1.ConfigMapList{},
	corev1.Secret{}, corev1.SecretList{},
	corev1.ServiceAccount{}, corev1.ServiceAccountList{},
	corev1.Pod{}, corev1.PodList{},
	corev1.Endpoints{}, corev1.EndpointsList{},
	eventsv1.Event{}, eventsv1.EventList{},
	coordinationv1.Lease{}, coordinationv1.LeaseList{},
	discoveryv1.EndpointSlice{}, discoveryv1.EndpointSliceList{},
	networkingv1.ServiceCIDR{}, networkingv1.ServiceCIDRList{},
	networkingv1.IPAddress{}, networkingv1.IPAddressList{},
	networkingv1beta1.ServiceCIDR{}, networkingv1beta1.ServiceCIDRList{},
	networkingv1beta1.IPAddress{}, networkingv1beta1.IPAddressList{},
	authorizationv1.SelfSubjectAccessReview{}, authorizationv1.SelfSubjectRulesReview{},
	authorizationv1.SubjectAccessReview{}, authorizationv1.LocalSubjectAccessReview{},
	authenticationv1.SelfSubjectReview{}, authenticationv1.TokenReview{}, authenticationv1.TokenRequest{},
	metav1.Status{}, metav1.Condition{},
	metav1.CreateOptions{}, metav1.DeleteOptions{}, metav1.GetOptions{}, metav1.ListOptions{}, metav1.PatchOptions{},
	metav1.UpdateOptions{},
	metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{}, metav1beta1.PartialObjectMetadataList{},
	metav1.APIVersions{}, metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIResourceList{},
	apidiscoveryv2.APIGroupDiscoveryList{}, version.Info{},
}

// plain are the types with an encoding of their own, by the word that the table has for them.
var plain = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "microtime",
	reflect.TypeFor[metav1.Duration]():      "duration",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intorstring",
	reflect.TypeFor[metav1.FieldsV1]():      "json",
	reflect.TypeFor[runtime.RawExtension](): "json",
	reflect.TypeFor[[]byte]():               "bytes",
}

type modelNamed interface{ OpenAPIModelName() string }

type table struct {
	published map[string]common.OpenAPIDefinition
	seen      map[string]reflect.Type
	todo      []reflect.Type
}

func main() {
	log.SetFlags(0)
	refer := func(path string) spec.Ref { return spec.MustCreateRef(path) }
	t := table{published: openapi.GetOpenAPIDefinitions(refer), seen: map[string]reflect.Type{}}
	for _, root := range roots {
		t.refer(reflect.TypeOf(root))
	}
	blocks := map[string]string{}
	for len(t.todo) > 0 {
		next := t.todo[len(t.todo)-1]
		t.todo = t.todo[:len(t.todo)-1]
		blocks[modelName(next)] = t.definition(next)
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "# Made by `cargo xtask generate schema` from k8s.io/api v0.36.3; table.rs says how to read it.")
	names := make([]string, 0, len(blocks))
	for name := range blocks {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprint(out, "\n", blocks[name])
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func modelName(ty reflect.Type) string {
	named, ok := reflect.New(ty).Interface().(modelNamed)
	if !ok {
		log.Fatalf("%v has no model name", ty)
	}
	return named.OpenAPIModelName()
}

// refer makes sure that the struct gets its definition, and returns its name.
func (t *table) refer(ty reflect.Type) string {
	name := modelName(ty)
	if before, ok := t.seen[name]; !ok {
		t.seen[name] = ty
		t.todo = append(t.todo, ty)
	} else if before != ty {
		log.Fatalf("%s is both %v and %v", name, before, ty)
	}
	return name
}

func (t *table) definition(ty reflect.Type) string {
	name := modelName(ty)
	published, ok := t.published[name]
	if !ok {
		log.Fatalf("%s is not published", name)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "definition %s", name)
	if kind, ok := published.Schema.Extensions.GetString("x-kubernetes-map-type"); ok && kind == "atomic" {
		fmt.Fprint(&out, " atomic")
	}
	if unions, ok := published.Schema.Extensions["x-kubernetes-unions"]; ok {
		fmt.Fprintf(&out, " unions=%s", compact(unions))
	}
	fmt.Fprintln(&out)
	t.fields(&out, ty, published.Schema, nil)
	return out.String()
}

// inlined is a struct whose fields stand among those of the struct around it in JSON, but not in protobuf.
type inlined struct {
	name   string
	number string
}

func (t *table) fields(out *strings.Builder, ty reflect.Type, published spec.Schema, around []inlined) {
	for i := range ty.NumField() {
		field := ty.Field(i)
		tag := field.Tag.Get("json")
		if tag == "-" {
			continue
		}
		options := strings.Split(tag, ",")
		if options[0] == "" {
			if !field.Anonymous || field.Type.Kind() != reflect.Struct {
				log.Fatalf("%v.%s has no JSON name", ty, field.Name)
			}
			t.fields(out, field.Type, published, append(slices.Clone(around), inlined{field.Name, number(field)}))
			continue
		}
		t.field(out, field, options, published, around)
	}
}

func (t *table) field(out *strings.Builder, field reflect.StructField, options []string, published spec.Schema, around []inlined) {
	name := options[0]
	property, ok := published.Properties[name]
	if !ok {
		log.Fatalf("%s is not published", name)
	}
	ty := field.Type
	pointer := ty.Kind() == reflect.Pointer
	if pointer {
		ty = ty.Elem()
	}
	word, spelled := t.typeOf(ty)
	words := []string{name, number(field), word}
	if len(around) > 0 {
		path := make([]string, len(around))
		for i, one := range around {
			path[i] = one.name + ":" + one.number
			// What is inside something that protobuf has no place for has none either (TypeMeta).
			if one.number == "0" {
				words[1] = "0"
			}
		}
		words = append(words, "in="+strings.Join(path, "/"))
	}
	if spelled != ty.String() {
		words = append(words, "go="+ty.String())
	}
	if slices.Contains(published.Required, name) {
		words = append(words, "required")
	}
	if pointer {
		words = append(words, "pointer")
	}
	for _, option := range options[1:] {
		switch option {
		case "omitempty", "omitzero":
			words = append(words, option)
		case "inline":
		default:
			log.Fatalf("%s: what does %q mean in a JSON tag?", name, option)
		}
	}
	words = append(words, structure(property)...)
	words = append(words, merging(field)...)
	// What is always written is zero when nothing was given; that goes without saying.
	always := !pointer && (ty.Kind() == reflect.Struct || !slices.Contains(options, "omitempty"))
	if property.Default != nil && !(always && isZero(property.Default)) {
		words = append(words, "default="+compact(property.Default))
	}
	if values := enumeration(property); len(values) > 0 {
		words = append(words, "enum="+compact(values))
	}
	fmt.Fprintf(out, "  %s\n", strings.Join(words, " "))
}

// typeOf returns the table's word for a type, and how Go would spell the type if nothing but structs had names.
func (t *table) typeOf(ty reflect.Type) (word, spelled string) {
	if word, ok := plain[ty]; ok {
		// Anything is anything to the table; what Go calls it has to be said.
		if word == "json" {
			return word, ""
		}
		return word, ty.String()
	}
	switch ty.Kind() {
	case reflect.String:
		return "string", "string"
	case reflect.Bool:
		return "boolean", "bool"
	case reflect.Int32:
		return "int32", "int32"
	case reflect.Int64:
		return "int64", "int64"
	case reflect.Float64:
		return "double", "float64"
	case reflect.Struct:
		return t.refer(ty), ty.String()
	case reflect.Slice:
		word, spelled := t.typeOf(ty.Elem())
		return "[]" + word, "[]" + spelled
	case reflect.Map:
		if ty.Key().Kind() != reflect.String {
			log.Fatalf("the keys of %v are no strings", ty)
		}
		word, spelled := t.typeOf(ty.Elem())
		return "{}" + word, "map[string]" + spelled
	default:
		log.Fatalf("the table has no word for %v", ty)
		return "", ""
	}
}

// number is the number in a protobuf tag ("bytes,8,opt,name=creationTimestamp"), 0 where there is none.
func number(field reflect.StructField) string {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return "0"
	}
	return parts[1]
}

func structure(property spec.Schema) []string {
	var words []string
	if kind, ok := property.Extensions.GetString("x-kubernetes-map-type"); ok {
		words = append(words, kind)
	}
	kind, ok := property.Extensions.GetString("x-kubernetes-list-type")
	switch {
	case !ok:
	case kind == "map":
		keys, ok := property.Extensions["x-kubernetes-list-map-keys"].([]any)
		if !ok {
			log.Fatalf("a map list without keys: %v", property.Extensions)
		}
		parts := make([]string, len(keys))
		for i, key := range keys {
			parts[i] = key.(string)
		}
		words = append(words, "map="+strings.Join(parts, ","))
	default:
		words = append(words, kind)
	}
	return words
}

func merging(field reflect.StructField) []string {
	var words []string
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		words = append(words, "patch="+strategy)
	}
	if key := field.Tag.Get("patchMergeKey"); key != "" {
		words = append(words, "key="+key)
	}
	return words
}

// enumeration is what a field may be, or the items of a list.
func enumeration(property spec.Schema) []any {
	if property.Items != nil && property.Items.Schema != nil {
		return property.Items.Schema.Enum
	}
	return property.Enum
}

func isZero(value any) bool {
	object, ok := value.(map[string]any)
	return ok && len(object) == 0 || reflect.ValueOf(value).IsZero()
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	if strings.ContainsAny(string(text), " \n") {
		log.Fatalf("a value with spaces in it: %s", text)
	}
	return string(text)
}
