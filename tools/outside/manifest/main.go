// Command manifest checks the files that deploy sendcode, without a cluster or a container engine:
//
//   - the compose files, by compose's own schema
//   - the chart in deploy/helm, which Helm's own package renders with each of forms
//   - the files in deploy/kubernetes, two of which must be such renderings
//
// Each Kubernetes object must fit the Go type of its kind, without unknown fields. With -write, the
// command writes the two renderings anew. It is a separate module, so that the service does not
// depend on these packages.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	charts "helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// forms are the ways to install the chart: the secrets that are set, and the file for the
// rendering. The form without a file differs from the next one only by Redis.
var forms = []struct {
	file    string
	secrets map[string]any
}{
	{"deploy/kubernetes/file.yaml", map[string]any{}},
	{"", map[string]any{"SENDCODE_DATABASE_URL": true}},
	{"deploy/kubernetes/postgres.yaml", map[string]any{"SENDCODE_DATABASE_URL": true, "SENDCODE_REDIS_URL": true}},
}

const head = "# Rendered from deploy/helm, whose values.yaml says how to use it: change it there, and run\n" +
	"# go run -C tools/outside/manifest . -root=../../.. -write\n"

func main() {
	write := flag.Bool("write", false, "write the files that the chart renders")
	root := flag.String("root", ".", "the root of the repository")
	flag.Parse()
	if err := os.Chdir(*root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	err := errors.Join(checkCompose("compose.yaml"), checkCompose("compose.postgres.yaml"))
	for _, form := range forms {
		text, failed := render(form.secrets)
		err = errors.Join(err, failed, checkObjects(cmp.Or(form.file, "deploy/helm"), text))
		if form.file == "" {
			continue
		}
		if *write {
			err = errors.Join(err, os.WriteFile(form.file, text, 0o644))
		}
		if old, _ := os.ReadFile(form.file); !bytes.Equal(old, text) {
			err = errors.Join(err, errors.New(form.file+" is not what deploy/helm renders: run with -write"))
		}
	}
	backup, failed := os.ReadFile("deploy/kubernetes/backup.yaml")
	if err = errors.Join(err, failed, checkObjects("backup.yaml", backup)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// render returns the chart's objects for an installation with these secrets.
func render(secrets map[string]any) ([]byte, error) {
	chart, err := charts.Load("deploy/helm")
	if err != nil {
		return nil, err
	}
	values, err := util.ToRenderValues(chart, map[string]any{"secrets": secrets},
		common.ReleaseOptions{Name: "sendcode", Namespace: "sendcode"}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	templates, err := engine.Engine{Strict: true}.Render(chart, values)
	text := head
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		if objects := strings.TrimSpace(templates[name]); objects != "" {
			text += "---\n# " + path.Base(name) + "\n" + objects + "\n"
		}
	}
	return []byte(text), err
}

// checkObjects checks each object of a file by the Go type of its kind.
func checkObjects(file string, text []byte) (err error) {
	for object := range bytes.SplitSeq(bytes.TrimPrefix(text, []byte(head)), []byte("---\n")) {
		if len(object) == 0 {
			continue
		}
		var meta struct{ APIVersion, Kind string }
		wrong := yaml.Unmarshal(object, &meta)
		if wrong == nil {
			wrong = checkObject(meta.APIVersion+" "+meta.Kind, object)
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", file, meta.Kind, wrong))
		}
	}
	return err
}

func checkObject(kind string, text []byte) error {
	types := map[string]any{
		"v1 ConfigMap": &corev1.ConfigMap{}, "v1 Service": &corev1.Service{},
		"v1 PersistentVolumeClaim":                 &corev1.PersistentVolumeClaim{},
		"v1 ServiceAccount":                        &corev1.ServiceAccount{},
		"apps/v1 StatefulSet":                      &appsv1.StatefulSet{},
		"apps/v1 Deployment":                       &appsv1.Deployment{},
		"batch/v1 Job":                             &batchv1.Job{},
		"batch/v1 CronJob":                         &batchv1.CronJob{},
		"rbac.authorization.k8s.io/v1 Role":        &rbacv1.Role{},
		"rbac.authorization.k8s.io/v1 RoleBinding": &rbacv1.RoleBinding{},
		"policy/v1 PodDisruptionBudget":            &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1 NetworkPolicy":       &networkingv1.NetworkPolicy{},
	}
	into, known := types[kind]
	if !known {
		return errors.New("no type for " + kind)
	}
	return yaml.UnmarshalStrict(text, into)
}

func checkCompose(file string) error {
	_, err := loader.LoadWithContext(context.Background(),
		compose.ConfigDetails{ConfigFiles: []compose.ConfigFile{{Filename: file}}, WorkingDir: "."},
		func(o *loader.Options) {
			o.SetProjectName("sendcode", true)
			o.Interpolate.LookupValue = func(string) (string, bool) { return "set", true } // stands for the variables that an operator sets
		})
	return err
}
