// Command manifest checks, without a cluster or an engine, what deploys sendcode: the kustomization
// in the first folder, built and each object compared strictly with the type of its kind; and the
// compose file that the second argument names, by compose's own schema. It is a module of its own,
// so that the service depends on none of this.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := errors.Join(checkKustomization(os.Args[1]), checkCompose(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func checkKustomization(folder string) error {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	for _, o := range objects.Resources() {
		text, wrong := o.AsYAML()
		if wrong == nil {
			wrong = checkObject(o.GetApiVersion()+" "+o.GetKind(), text)
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", o.CurId(), wrong))
		}
	}
	return err
}

func checkObject(kind string, text []byte) error {
	types := map[string]any{
		"v1 Namespace": &corev1.Namespace{}, "v1 ConfigMap": &corev1.ConfigMap{}, "v1 Service": &corev1.Service{},
		"v1 PersistentVolumeClaim":           &corev1.PersistentVolumeClaim{},
		"apps/v1 Deployment":                 &appsv1.Deployment{},
		"policy/v1 PodDisruptionBudget":      &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1 NetworkPolicy": &networkingv1.NetworkPolicy{},
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
			o.Interpolate.LookupValue = func(string) (string, bool) { return "set", true } // what an operator sets
		})
	return err
}
